//! Each seam is between rc3 and one foreign crate: quinn-proto, rustls, the library of cryptography, qlog.

pub(crate) mod cryptography;
pub(crate) mod keys;
pub(crate) mod primary;
pub(crate) mod qlog;
pub(crate) mod tls;
