//! Each between rc3 and one foreign crate: quinn-proto, rustls, ring, qlog.

pub mod keys;
pub mod primary;
pub(crate) mod qlog;
pub mod tls;
