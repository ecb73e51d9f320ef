"""N5: documents, and chunks of three modes."""
