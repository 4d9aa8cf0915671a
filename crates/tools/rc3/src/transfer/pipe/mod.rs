//! Streams of unknown length: `tar c . | rc3 send - TICKET`, `rc3 recv --stdout | tar x`.
//!
//! One stream carries the bytes, both ends hash them, and the receiver compares the hashes at the end. Nothing resumes: a
//! pipe has no bytes to go back to. Memory: the connection's windows, and a few chunks at each end.

pub(super) use receive::receive_file;
pub use receive::receive_to_stdout;
pub use send::{PipeJob, send_pipe};

mod input;
mod output;
mod progress;
mod receive;
mod send;

/// Bytes of one read or write.
const CHUNK_BYTES: usize = 64 << 10;
/// Chunks between the thread of a pipe and the connection.
const CHUNKS_AHEAD: usize = 8;
/// The sender's index of the stream, where other transfers have the index of a file.
const STREAM: u32 = 0;

use super::{error::TransferError, interrupted};

/// Marks an error as one of a transfer that cannot be continued.
fn of_pipe(error: TransferError) -> TransferError {
    TransferError::Pipe(Box::new(error))
}

/// Waits for an interruption.
async fn interrupted_pipe() -> TransferError {
    interrupted().await;
    of_pipe(TransferError::Interrupted { kept: 0 })
}
