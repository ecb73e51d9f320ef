"""BigDataViewer: projects that an XML file describes, and the levels of their views."""
