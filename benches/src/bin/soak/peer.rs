//! The server: does with each stream what its first bytes ask for.

use std::{sync::Arc, time::Duration};

use rc3_net::{Connection, Endpoint, ReadExactError, RecvStream, SendStream};

use crate::{Result, tally::Tally};

/// What a stream is for: the first bytes of each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) what: What,
    /// Of the content.
    pub(crate) seed: u64,
    pub(crate) len: u64,
}

/// What the server does with the content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum What {
    /// Reads and checks it.
    Sink,
    /// As well, but takes its time.
    Dawdle,
    /// Reads a part and stops the stream.
    Stop,
    /// Sends it back.
    Echo,
}

impl Header {
    pub(crate) const LEN: usize = 17;

    pub(crate) fn encode(&self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        bytes[0] = self.what as u8;
        bytes[1..9].copy_from_slice(&self.seed.to_le_bytes());
        bytes[9..].copy_from_slice(&self.len.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8; Self::LEN]) -> Option<Self> {
        let what = *[What::Sink, What::Dawdle, What::Stop, What::Echo].get(usize::from(bytes[0]))?;
        let number = |at: usize| bytes[at..at + 8].try_into().map(u64::from_le_bytes).ok();
        Some(Self { what, seed: number(1)?, len: number(9)? })
    }
}

/// The byte at `offset` of a content.
pub(crate) fn content(seed: u64, offset: u64) -> u8 {
    rc3_sim::pattern(offset ^ seed)
}

/// Serves until the endpoint is closed.
pub(crate) async fn serve(endpoint: Endpoint, tally: Arc<Tally>) {
    while let Some(incoming) = endpoint.accept().await {
        let tally = tally.clone();
        tokio::spawn(async move {
            // The client may be gone before it is accepted.
            if let Ok(connection) = incoming.await {
                serve_connection(connection, tally).await;
            }
        });
    }
}

async fn serve_connection(connection: Connection, tally: Arc<Tally>) {
    loop {
        let (tx, rx) = tokio::select! {
            stream = connection.accept_uni() => match stream {
                Ok(rx) => (None, rx),
                Err(_) => return,
            },
            streams = connection.accept_bi() => match streams {
                Ok((tx, rx)) => (Some(tx), rx),
                Err(_) => return,
            },
        };
        let tally = tally.clone();
        tokio::spawn(async move {
            if let Err(fault) = serve_stream(tx, rx, &tally).await {
                tally.report(fault.to_string());
            }
        });
    }
}

/// A stream or connection that is gone is no fault.
async fn serve_stream(mut tx: Option<SendStream>, mut rx: RecvStream, tally: &Tally) -> Result<()> {
    let mut bytes = [0; Header::LEN];
    match rx.read_exact(&mut bytes).await {
        Ok(()) => {}
        Err(ReadExactError::FinishedEarly(got)) => return Err(format!("a stream of {got} bytes").into()),
        Err(ReadExactError::ReadError(_)) => return Ok(()),
    }
    let header = Header::decode(&bytes).ok_or("a stream that begins with something else")?;
    let mut at = 0;
    loop {
        let chunk = match rx.read_chunk(16 * 1024, true).await {
            Ok(Some(chunk)) => chunk.bytes,
            Ok(None) => break,
            Err(_) => return Ok(()),
        };
        if !chunk.iter().zip(at..).all(|(&byte, at)| byte == content(header.seed, at)) {
            let end = at + chunk.len() as u64;
            return Err(format!("{header:?} arrived changed between {at} and {end}").into());
        }
        at += chunk.len() as u64;
        match header.what {
            What::Dawdle => tokio::time::sleep(Duration::from_millis(2)).await,
            What::Stop if at > header.len / 2 => {
                // It may have been read to its end just now.
                let _ = rx.stop(1_u32.into());
                return Ok(());
            }
            What::Echo => {
                let Some(tx) = &mut tx else { return Err("an echo on a stream of one direction".into()) };
                if tx.write_chunk(chunk).await.is_err() {
                    return Ok(());
                }
            }
            What::Sink | What::Stop => {}
        }
    }
    if at != header.len {
        return Err(format!("{header:?} ended after {at} bytes").into());
    }
    Tally::count(&tally.verified, 1);
    Tally::count(&tally.bytes, at);
    Ok(())
}
