"""What people look at: texts, HTML and pictures of what is stored."""
