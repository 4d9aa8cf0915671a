//! The seam between rc3 and the congestion-controlled transport that serves as its primary loop (RC3 §2.1).
//!
//! That transport is always quinn-proto: [`quinn::Quic`] is the seam, and docs/QUINN_PROTO.md lists the behaviour that
//! rc3 relies on. [`PrimaryWriter`] is the part that sending streams need.

pub(crate) mod quinn;

use bytes::Bytes;

use crate::quic::{StreamId, WriteError};

/// Where the sending part of a stream writes its bytes: [`quinn::Quic`], or in tests something simpler.
///
/// Written bytes belong to the primary: they cannot be withdrawn, and the primary delivers them.
pub(crate) trait PrimaryWriter {
    /// Hands bytes over; returns how many were accepted, from the front.
    fn write(&mut self, id: StreamId, chunks: &mut [Bytes]) -> Result<usize, WriteError>;

    /// Ends a stream, all of whose bytes were written.
    fn finish(&mut self, id: StreamId);
}
