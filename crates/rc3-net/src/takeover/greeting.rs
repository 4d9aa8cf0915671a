//! The first messages between the two processes, on the Unix socket that the application connected: the old one sends
//! its sockets, the new one answers when it could start, the old one when it has stopped reading, the new one when it
//! has begun.
//!
//! ```text
//! old: greeting, with the descriptors      new: READY or REFUSED
//! old: STOPPED                             new: READING
//! ```
//!
//! A process of the same user is trusted with the sockets, or to have sent them ([`super::process`]). Still, invariant:
//! whatever arrives, the descriptors and bytes are bounded, and those that are not used are closed.

use std::{
    io::{self, IoSlice, IoSliceMut},
    mem::MaybeUninit,
    os::fd::{BorrowedFd, OwnedFd},
    time::Duration,
};

use bytes::{Buf, BufMut};
use rc3_core::WorkerHash;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recv, recvmsg, send, sendmsg,
};
use tokio::{io::Interest, net::UnixStream, time::timeout};

/// The begin of a greeting; the last byte is the version of the format of all messages.
const MAGIC: [u8; 8] = *b"rc3port\x03";

/// Bytes of a greeting.
const LEN: usize = MAGIC.len() + 1 + 1 + 8 + 1;

/// Two sockets and a link for each worker.
const DESCRIPTORS_MAX: usize = 3 * WorkerHash::WORKERS_MAX;

/// How long each side waits for the next message of the other.
const PATIENCE: Duration = Duration::from_secs(10);

/// The new process can start.
pub(super) const READY: u8 = 1;
/// It cannot; the old one goes on.
pub(super) const REFUSED: u8 = 2;
/// The old process reads the port no longer.
pub(super) const STOPPED: u8 = 3;
/// The new one does.
pub(super) const READING: u8 = 4;

/// What the old process has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Greeting {
    pub(super) workers: usize,
    /// Whether each worker has a socket for low levels.
    pub(super) low: bool,
    /// With several workers.
    pub(super) hash: Option<WorkerHash>,
}

impl Greeting {
    /// The descriptors that belong to it: for each worker its sockets and its end of a link.
    pub(super) fn descriptors(&self) -> usize {
        self.workers * if self.low { 3 } else { 2 }
    }

    fn emit(&self) -> Vec<u8> {
        let [a, b] = self.hash.map_or([0; 2], |hash| hash.key());
        let mut bytes = Vec::with_capacity(LEN);
        bytes.put_slice(&MAGIC);
        bytes.put_u8(self.workers as u8);
        bytes.put_u8(self.low.into());
        bytes.put_u32(a);
        bytes.put_u32(b);
        bytes.put_u8(self.hash.map_or(0, |hash| hash.id_len()) as u8);
        bytes
    }

    fn parse(bytes: [u8; LEN]) -> io::Result<Self> {
        let (magic, mut rest) = bytes.split_at(MAGIC.len());
        let (name, version) = MAGIC.split_at(MAGIC.len() - 1);
        if !magic.starts_with(name) {
            return Err(invalid(
                "the other process sent no greeting of an rc3 endpoint that hands its port over",
            ));
        }
        if !magic.ends_with(version) {
            let text =
                "the other process has another version of the format of hand-overs, restart without one";
            return Err(invalid(text));
        }
        let workers = usize::from(rest.get_u8());
        let low = match rest.get_u8() {
            0 => false,
            1 => true,
            _ => return Err(invalid("the greeting of the other process is malformed")),
        };
        let key = [rest.get_u32(), rest.get_u32()];
        let hash = match workers {
            1 => None,
            _ => {
                let hash = WorkerHash::from_parts(key, workers, rest.get_u8().into());
                Some(hash.ok_or_else(|| invalid("the greeting of the other process is malformed"))?)
            }
        };
        Ok(Self { workers, low, hash })
    }
}

/// Sends a greeting with its descriptors.
///
/// # Errors
/// [`io::ErrorKind::UnexpectedEof`] when the other process has closed the connection, [`io::ErrorKind::TimedOut`] when
/// it does not read.
pub(super) async fn send_greeting(
    to: &UnixStream,
    greeting: &Greeting,
    descriptors: &[BorrowedFd<'_>],
) -> io::Result<()> {
    debug_assert_eq!(descriptors.len(), greeting.descriptors());
    let bytes = greeting.emit();
    let sending = to.async_io(Interest::WRITABLE, || {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
            return Err(invalid("more sockets than a message can carry"));
        }
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        Ok(sendmsg(to, &[IoSlice::new(&bytes)], &mut control, flags)?)
    });
    match in_time(sending).await? {
        LEN => Ok(()),
        _ => Err(io::ErrorKind::WriteZero.into()),
    }
}

/// Receives a greeting with its descriptors.
///
/// # Errors
/// [`io::ErrorKind::InvalidData`] if something else arrives, [`io::ErrorKind::UnexpectedEof`] if less does.
pub(super) async fn receive_greeting(from: &UnixStream) -> io::Result<(Greeting, Vec<OwnedFd>)> {
    let mut bytes = [0; LEN];
    let mut descriptors = Vec::new();
    let mut len = 0;
    let receiving = async {
        while len < LEN {
            let rest = &mut bytes[len..];
            len +=
                match from.async_io(Interest::READABLE, || receive_part(from, rest, &mut descriptors)).await?
                {
                    0 => return Err(ended()),
                    received => received,
                };
        }
        Ok(())
    };
    in_time(receiving).await?;
    let greeting = Greeting::parse(bytes)?;
    if descriptors.len() != greeting.descriptors() {
        return Err(invalid("the other process sent another number of sockets than it announced"));
    }
    Ok((greeting, descriptors))
}

/// Some bytes, and the descriptors that came with them.
fn receive_part(from: &UnixStream, bytes: &mut [u8], descriptors: &mut Vec<OwnedFd>) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    let received = recvmsg(from, &mut [IoSliceMut::new(bytes)], &mut control, flags)?;
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            descriptors.extend(rights);
        }
    }
    // The kernel has closed those without room.
    if received.flags.contains(ReturnFlags::CTRUNC) || descriptors.len() > DESCRIPTORS_MAX {
        return Err(invalid("the other process sent too many descriptors"));
    }
    Ok(received.bytes)
}

/// Sends one of the single bytes.
///
/// # Errors
/// As [`send_greeting`].
pub(super) async fn send_byte(to: &UnixStream, byte: u8) -> io::Result<()> {
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    in_time(to.async_io(Interest::WRITABLE, || Ok(send(to, &[byte], flags)?))).await?;
    Ok(())
}

/// Waits for one of the single bytes.
///
/// # Errors
/// [`io::ErrorKind::ConnectionRefused`] after [`REFUSED`], [`io::ErrorKind::InvalidData`] after any other byte, and as
/// [`receive_greeting`].
pub(super) async fn expect_byte(from: &UnixStream, expected: u8) -> io::Result<()> {
    let mut byte = [0];
    let receiving = from.async_io(Interest::READABLE, || Ok(recv(from, &mut byte, RecvFlags::DONTWAIT)?));
    match in_time(receiving).await? {
        (0, _) => Err(ended()),
        _ if byte == [expected] => Ok(()),
        _ if byte == [REFUSED] => {
            let text = "the other process could not take the port over, see its error";
            Err(io::Error::new(io::ErrorKind::ConnectionRefused, text))
        }
        _ => Err(invalid("the other process sent a byte that is no part of a hand-over")),
    }
}

async fn in_time<T>(doing: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    match timeout(PATIENCE, doing).await {
        Ok(Err(error))
            if matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset) =>
        {
            Err(ended())
        }
        Ok(result) => result,
        Err(_) => {
            let text = "the other process did not answer during the hand-over";
            Err(io::Error::new(io::ErrorKind::TimedOut, text))
        }
    }
}

fn ended() -> io::Error {
    let text = "the other process has closed the connection during the hand-over";
    io::Error::new(io::ErrorKind::UnexpectedEof, text)
}

fn invalid(text: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_greeting_is_read_as_written(key: [u32; 2], workers in 2..=64_usize, id_len in 8..=20_usize, low: bool) {
            let hash = WorkerHash::from_parts(key, workers, id_len);
            let greeting = Greeting { workers, low, hash };
            prop_assert_eq!(Greeting::parse(greeting.emit().try_into().unwrap()).unwrap(), greeting);
        }

        #[test]
        fn another_greeting_is_an_error(mut bytes: [u8; LEN], keep in 0..=9_usize) {
            bytes[..keep.min(8)].copy_from_slice(&MAGIC[..keep.min(8)]);
            if let Ok(greeting) = Greeting::parse(bytes) {
                prop_assert!((1..=64).contains(&greeting.workers) && greeting.descriptors() <= DESCRIPTORS_MAX);
            }
        }
    }

    #[test]
    fn one_worker_needs_no_hash() {
        for low in [false, true] {
            let greeting = Greeting { workers: 1, low, hash: None };
            assert_eq!(Greeting::parse(greeting.emit().try_into().unwrap()).unwrap(), greeting);
        }
    }
}
