"""Projects of BigDataViewer and BigStitcher as Datasets: opened by their XML."""
