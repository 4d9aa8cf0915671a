//! Bytes of a reader that may block for ever.

use std::{
    io::{self, Read},
    thread,
};

use bytes::Bytes;
use tokio::sync::mpsc;

use super::{
    super::source::Throttle,
    {CHUNK_BYTES, CHUNKS_AHEAD},
};

/// Reads in a thread of its own, because a blocked read must not delay the end of the program. The channel ends with the
/// input, or with an error.
pub(super) fn chunks(
    input: impl Read + Send + 'static,
    throttle: Throttle,
) -> mpsc::Receiver<io::Result<Bytes>> {
    let (sender, chunks) = mpsc::channel(CHUNKS_AHEAD);
    thread::spawn(move || forward(input, &throttle, &sender));
    chunks
}

fn forward(mut input: impl Read, throttle: &Throttle, sender: &mpsc::Sender<io::Result<Bytes>>) {
    let mut buf = vec![0; CHUNK_BYTES];
    loop {
        let chunk = match input.read(&mut buf) {
            Ok(0) => return,
            Ok(read) => {
                throttle.wait(read);
                Ok(Bytes::copy_from_slice(&buf[..read]))
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => Err(error),
        };
        let over = chunk.is_err();
        if sender.blocking_send(chunk).is_err() || over {
            return;
        }
    }
}
