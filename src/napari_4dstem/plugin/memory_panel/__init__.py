"""The memory dock: who holds how much, and the buttons that give it back."""
