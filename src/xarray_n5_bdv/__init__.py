"""BigDataViewer and BigStitcher projects as Datasets, opened by their XML."""
