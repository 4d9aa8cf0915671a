//! Each seam is between rc3 and one foreign crate: quinn-proto, rustls, ring, qlog.

pub(crate) mod keys;
pub(crate) mod primary;
pub(crate) mod qlog;
pub(crate) mod tls;
