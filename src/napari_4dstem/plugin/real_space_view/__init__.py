"""The real-space view: a raster image with crosshair, scale bar and levels."""
