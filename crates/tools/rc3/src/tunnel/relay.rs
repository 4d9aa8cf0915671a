//! Bytes between a TCP connection, or standard input and output, and a stream.
//!
//! Invariant: each direction holds one buffer. A side that does not read stops the other through the windows of TCP and
//! of the stream. The end of one direction is passed on and leaves the other open; a failure of either ends both.

use std::{io, time::Instant};

use bytes::{BufMut, BytesMut};
use rc3_net::{Connection, ConnectionError, RecvStream, SendStream, WriteError};
use thiserror::Error;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::TcpStream,
};

use super::{
    BROKEN,
    attained::{Attained, INTERACTIVE},
    open::{Open, OpenAnswer},
};
use crate::transfer::message;

/// Buffer of a direction that is quiet.
const READ_BYTES_MIN: usize = 4 << 10;
/// Buffer of a direction that fills its buffer, and the longest write.
const READ_BYTES_MAX: usize = 64 << 10;

/// Why a relay ended early.
#[derive(Debug, Error)]
pub(super) enum Broken {
    /// The TCP connection, or standard input or output.
    #[error("{0}")]
    Local(io::Error),
    /// The stream.
    #[error("the peer ended it: {0}")]
    Peer(io::Error),
    /// The peer has no connection to the target.
    #[error(transparent)]
    Answer(#[from] OpenAnswer),
}

/// A stream to a target, whose answer comes before its bytes.
pub(super) struct TargetStream {
    pub(super) send: SendStream,
    pub(super) recv: RecvStream,
}

impl TargetStream {
    /// Opens a stream and writes its first message.
    pub(super) async fn open(connection: &Connection, open: &Open) -> Result<Self, ConnectionError> {
        let (mut send, recv) = connection.open_bi().await?;
        let _ = send.set_priority(INTERACTIVE);
        // A stopped stream has an answer to read.
        if let Err(WriteError::ConnectionLost(error)) = send.write_chunk(message::encode(open).into()).await {
            return Err(error);
        }
        Ok(Self { send, recv })
    }

    /// Waits for the answer.
    pub(super) async fn answered(&mut self) -> Result<(), Broken> {
        answer_of(&mut self.recv).await
    }
}

/// Waits for the answer of a stream.
pub(super) async fn answer_of(recv: &mut RecvStream) -> Result<(), Broken> {
    match OpenAnswer::of(recv.read_u8().await.map_err(Broken::Peer)?) {
        OpenAnswer::Connected => Ok(()),
        answer => Err(answer.into()),
    }
}

/// Answers the stream of a peer with the outcome of connecting to its target, and relays the connection.
pub(super) async fn answer(mut stream: TargetStream, connected: Result<TcpStream, OpenAnswer>) {
    let answer = OpenAnswer::about(&connected);
    // Dropping the stream finishes it after the answer.
    if stream.send.write_all(&[answer.code()]).await.is_ok()
        && let Ok(tcp) = connected
    {
        let _ = relay_tcp(tcp, stream, false).await;
    }
}

/// Relays a TCP connection. While the answer of the stream is due, bytes leave before it arrives.
pub(super) async fn relay_tcp(tcp: TcpStream, stream: TargetStream, answer_due: bool) -> Result<(), Broken> {
    let mut end = TcpEnd { tcp, ended: false };
    let (reader, writer) = end.tcp.split();
    relay(reader, writer, || Ok(()), stream, answer_due).await?;
    end.ended = true;
    Ok(())
}

/// A TCP connection. Unless both directions have ended it is reset on drop, whether a direction failed or the relay was
/// cancelled: the program must not take that for the end of the data.
struct TcpEnd {
    tcp: TcpStream,
    ended: bool,
}

impl Drop for TcpEnd {
    fn drop(&mut self) {
        if !self.ended {
            let _ = self.tcp.set_zero_linger();
        }
    }
}

/// A stream, reset on drop as a [`TcpEnd`] is.
struct StreamEnd {
    stream: TargetStream,
    ended: bool,
}

impl Drop for StreamEnd {
    fn drop(&mut self) {
        if !self.ended {
            let _ = self.stream.send.reset(BROKEN);
            let _ = self.stream.recv.stop(BROKEN);
        }
    }
}

/// Relays any reader and writer; calls `close` once the writer has everything and is shut down.
pub(super) async fn relay(
    mut reader: impl AsyncRead + Unpin,
    mut writer: impl AsyncWrite + Unpin,
    close: impl FnOnce() -> io::Result<()>,
    stream: TargetStream,
    answer_due: bool,
) -> Result<(), Broken> {
    let mut end = StreamEnd { stream, ended: false };
    let TargetStream { send, recv } = &mut end.stream;
    let inward = async {
        if answer_due {
            answer_of(recv).await?;
        }
        write_out(recv, &mut writer).await?;
        close().map_err(Broken::Local)
    };
    tokio::try_join!(read_in(&mut reader, send), inward)?;
    end.ended = true;
    Ok(())
}

/// Until the end of the reader, or until the peer does not want more: then the other direction has the reason, or ends
/// in its own time.
async fn read_in(reader: &mut (impl AsyncRead + Unpin), send: &mut SendStream) -> Result<(), Broken> {
    let (mut attained, mut priority) = (Attained::new(Instant::now()), INTERACTIVE);
    let (mut buffer, mut room) = (BytesMut::new(), READ_BYTES_MIN);
    loop {
        if buffer.capacity() < room {
            buffer.reserve(room);
        }
        let read = reader.read_buf(&mut (&mut buffer).limit(room)).await.map_err(Broken::Local)?;
        if read == 0 {
            let _ = send.finish();
            return Ok(());
        }
        room = if read == room { READ_BYTES_MAX } else { READ_BYTES_MIN };
        let next = attained.on_bytes(Instant::now(), read);
        if next != priority {
            priority = next;
            let _ = send.set_priority(priority);
        }
        match send.write_chunk(buffer.split().freeze()).await {
            Ok(()) => attained.on_written(Instant::now()),
            Err(WriteError::Stopped(_)) => return Ok(()),
            Err(error) => return Err(Broken::Peer(error.into())),
        }
    }
}

/// Until the end of the stream.
async fn write_out(recv: &mut RecvStream, writer: &mut (impl AsyncWrite + Unpin)) -> Result<(), Broken> {
    loop {
        match recv.read_chunk(READ_BYTES_MAX, true).await {
            Ok(Some(chunk)) => {
                writer.write_all(&chunk.bytes).await.map_err(Broken::Local)?;
                writer.flush().await.map_err(Broken::Local)?;
            }
            Ok(None) => return writer.shutdown().await.map_err(Broken::Local),
            Err(error) => return Err(Broken::Peer(error.into())),
        }
    }
}
