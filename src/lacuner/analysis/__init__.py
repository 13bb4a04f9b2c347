"""The quantities that the papers define, on any data: missampling, uncertainty, the bound on missampling, entity sparsity."""
