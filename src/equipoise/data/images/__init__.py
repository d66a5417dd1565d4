"""Images on disk: decoded, checked, and read as samples."""

from equipoise.data.images.check import duplicate_note
from equipoise.data.images.decode import UnreadableImageError, decode_image
from equipoise.data.images.folder import read_images
from equipoise.data.images.images_on_disk import Images

__all__ = ["Images", "UnreadableImageError", "decode_image", "duplicate_note", "read_images"]
