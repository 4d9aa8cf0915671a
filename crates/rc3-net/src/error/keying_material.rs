//! Exporting keying material.

use thiserror::Error;

/// No keying material: the handshake is not complete, or more than 255 hashes of output were requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("no keying material, complete the handshake and request less than 8 KB")]
pub struct ExportKeyingMaterialError;
