"""N5: documents, and chunks in three modes."""
