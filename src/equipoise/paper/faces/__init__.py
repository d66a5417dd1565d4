"""Faces: detection, alignment and verification."""

from equipoise.paper.faces.aligned_folder import Alignment, align_folder
from equipoise.paper.faces.alignment import aligned
from equipoise.paper.faces.detection import find_faces
from equipoise.paper.faces.mtcnn import MTCNN, load_mtcnn

__all__ = ["MTCNN", "Alignment", "align_folder", "aligned", "find_faces", "load_mtcnn"]
