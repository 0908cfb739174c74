"""The metadata store on disk, and the image that follows it."""
