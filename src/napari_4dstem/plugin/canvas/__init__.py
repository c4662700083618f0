"""The napari canvas: the lazy pattern layer, how patterns are shown, virtual detectors on top."""
