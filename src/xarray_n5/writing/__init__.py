"""How arrays are written: what is asked for, marks, tasks, receipts, what is left to do."""
