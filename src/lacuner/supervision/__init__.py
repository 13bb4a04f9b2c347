"""What is known about each span or word, as tensors."""
