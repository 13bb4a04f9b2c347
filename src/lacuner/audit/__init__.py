"""Which entities did the annotators, or the dictionary, miss?"""
