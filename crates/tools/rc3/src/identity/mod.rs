//! Identities that outlive a run, and the peers that each side trusts.
//!
//! [`mod@file`] keeps this user's key and certificate, [`peers`] the fingerprints of others, [`mutual`] makes a TLS handshake
//! in which both sides show a certificate.

pub mod file;
pub mod mutual;
pub mod peers;
pub mod trust;
