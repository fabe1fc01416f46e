"""How long does proving everything take at the paper's size?"""
