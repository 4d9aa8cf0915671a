//! Hand-overs with another process that is broken or hostile: each ends with a typed error, the server goes on, and no
//! descriptor stays open. A binary with one test, because it counts the descriptors of the process.
#![cfg(all(target_os = "linux", not(rc3_portable)))]
#![forbid(unsafe_code)]

mod common;

use std::{
    fs,
    io::{self, IoSlice, IoSliceMut},
    mem::MaybeUninit,
    net::{SocketAddr, TcpListener, UdpSocket},
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    time::Duration,
};

use common::{code, configs, connect, pattern, receive, run, send};
use rc3_net::{
    ClientConfig, Connection, Endpoint, EndpointOptions, ServerConfig,
    socket::{Options, Sockets},
};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, Interest},
    net::UnixStream,
};

/// Messages of a hand-over.
const READY: u8 = 1;
const STOPPED: u8 = 3;
const READING: u8 = 4;

/// A greeting of one worker with two sockets.
const GREETING: [u8; 19] = *b"rc3port\x03\x01\x01\0\0\0\0\0\0\0\0\0";

fn any() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

fn descriptors() -> usize {
    fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Waits until tasks that have ended have closed theirs.
async fn expect_descriptors(expected: usize, case: &str) {
    for _ in 0..1_000 {
        if descriptors() == expected {
            return;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    panic!("{case}: {} descriptors instead of {expected}", descriptors());
}

async fn exchange((near, far): &(Connection, Connection)) {
    let data = pattern(100_000, 1);
    tokio::join!(async { send(near.open_uni().await.unwrap(), data.clone()).await }, async {
        receive(far.accept_uni().await.unwrap(), &data).await
    },);
}

async fn send_with(to: &UnixStream, bytes: &[u8], fds: &[BorrowedFd<'_>]) {
    let sending = to.async_io(Interest::WRITABLE, || {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(253))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() {
            assert!(control.push(SendAncillaryMessage::ScmRights(fds)));
        }
        Ok(sendmsg(to, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL)?)
    });
    // It may have closed its end already.
    let _ = sending.await;
}

async fn receive_with(from: &UnixStream) -> Vec<OwnedFd> {
    let receiving = from.async_io(Interest::READABLE, || {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(253))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut bytes = [0; 64];
        let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
        recvmsg(from, &mut [IoSliceMut::new(&mut bytes)], &mut control, flags)?;
        let messages = control.drain().filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(rights) => Some(rights),
            _ => None,
        });
        Ok(messages.flatten().collect())
    });
    receiving.await.unwrap()
}

fn link() -> (OwnedFd, OwnedFd) {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap()
}

/// What a broken old process sends, and then closes.
async fn take_over_from(server: &ServerConfig, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> io::Error {
    let (us, them) = UnixStream::pair().unwrap();
    let taking = Endpoint::take_over(EndpointOptions::default(), Some(server.clone()), them);
    let (taken, ()) = tokio::join!(taking, async {
        // In two parts, as a stream may have it.
        let (first, second) = bytes.split_at(bytes.len() / 2);
        send_with(&us, first, fds).await;
        send_with(&us, second, &[]).await;
        us.into_std().unwrap().shutdown(std::net::Shutdown::Write).unwrap();
    });
    taken.unwrap_err()
}

async fn new_process_refuses_what_is_no_greeting(server: &ServerConfig) {
    let before = descriptors();
    let pair = Sockets::bind(any(), &Options::default()).unwrap();
    let (primary, low) = (pair.primary.as_fd(), pair.low.as_ref().unwrap().as_fd());
    let (end, _other) = link();
    let good = [primary, low, end.as_fd()];
    let other = Sockets::bind(any(), &Options::default()).unwrap();
    let unbound = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::DGRAM, None).unwrap();
    let (file, tcp) = (fs::File::open("/proc/self/stat").unwrap(), TcpListener::bind(any()).unwrap());
    let stream = std::os::unix::net::UnixStream::pair().unwrap().0;
    let many = vec![primary; 253];
    let version = {
        let mut bytes = GREETING;
        bytes[7] = 9;
        bytes
    };
    let workers = |workers: u8| {
        let mut bytes = GREETING;
        bytes[8] = workers;
        bytes
    };
    let data = io::ErrorKind::InvalidData;
    let cases: Vec<(&str, Vec<u8>, Vec<BorrowedFd<'_>>, io::ErrorKind)> = vec![
        ("nothing", vec![], vec![], io::ErrorKind::UnexpectedEof),
        ("half a greeting", GREETING[..10].to_vec(), good.to_vec(), io::ErrorKind::UnexpectedEof),
        ("junk", pattern(4_000, 1), good.to_vec(), data),
        ("another version", version.to_vec(), good.to_vec(), data),
        ("no worker", workers(0).to_vec(), good.to_vec(), data),
        ("too many workers", workers(65).to_vec(), good.to_vec(), data),
        ("another number of workers", workers(3).to_vec(), good.to_vec(), data),
        ("no descriptors", GREETING.to_vec(), vec![], data),
        ("too few descriptors", GREETING.to_vec(), good[..2].to_vec(), data),
        ("too many descriptors", GREETING.to_vec(), many, data),
        ("a file", GREETING.to_vec(), vec![file.as_fd(), low, end.as_fd()], data),
        ("a TCP socket", GREETING.to_vec(), vec![tcp.as_fd(), low, end.as_fd()], data),
        ("an unbound socket", GREETING.to_vec(), vec![unbound.as_fd(), low, end.as_fd()], data),
        ("other ports", GREETING.to_vec(), vec![primary, other.primary.as_fd(), end.as_fd()], data),
        ("a stream for the link", GREETING.to_vec(), vec![primary, low, stream.as_fd()], data),
        ("sockets for links", GREETING.to_vec(), vec![end.as_fd(), low, primary], data),
    ];
    let during = descriptors();
    for (case, bytes, fds, kind) in cases {
        let error = take_over_from(server, &bytes, &fds).await;
        assert!(error.kind() == kind, "{case}: {error:?}");
        expect_descriptors(during, case).await;
    }
    // A good greeting, and then no word that the old process has stopped.
    let error = take_over_from(server, &GREETING, &good).await;
    assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    expect_descriptors(during, "it ends after the greeting").await;
    drop((pair, other, unbound, file, tcp, stream, end, _other));
    expect_descriptors(before, "the end").await;
}

async fn old_process_goes_on_after_a_broken_answer(server: &ServerConfig, client: &ClientConfig) {
    let before = descriptors();
    let old = Endpoint::server(server.clone(), any()).unwrap();
    let mut near = Endpoint::client(any()).unwrap();
    near.set_default_client_config(client.clone());
    let pair = connect(&near, &old).await;
    let during = descriptors();
    for (answer, kind) in [
        (&b""[..], io::ErrorKind::UnexpectedEof),
        (b"\x02", io::ErrorKind::ConnectionRefused),
        (b"\x07", io::ErrorKind::InvalidData),
        // Ready, and then something else.
        (b"\x01\x09", io::ErrorKind::InvalidData),
        (b"\x01", io::ErrorKind::UnexpectedEof),
    ] {
        let (to, mut peer) = UnixStream::pair().unwrap();
        let (handed, ()) = tokio::join!(old.hand_over(to), async {
            let fds = receive_with(&peer).await;
            assert_eq!(fds.len(), 3);
            peer.write_all(answer).await.unwrap();
            peer.shutdown().await.unwrap();
        });
        assert_eq!(handed.unwrap_err().kind(), kind, "{answer:?}");
        drop(peer);
        expect_descriptors(during, "an answer").await;
        exchange(&pair).await;
        let fresh = connect(&near, &old).await;
        fresh.0.close(code(0), b"");
    }
    junk_on_the_link(&old, &pair).await;
    near.close(code(0), b"");
    old.close(code(0), b"");
    near.wait_idle().await;
    old.wait_idle().await;
    drop((old, near, pair));
    expect_descriptors(before, "the end").await;
}

/// A new process that takes the port and sends junk. Nothing passes until it ends, then the old one goes on.
async fn junk_on_the_link(old: &Endpoint, pair: &(Connection, Connection)) {
    let (to, mut peer) = UnixStream::pair().unwrap();
    let (handed, fds) = tokio::join!(old.hand_over(to), async {
        let fds = receive_with(&peer).await;
        peer.write_all(&[READY]).await.unwrap();
        assert_eq!(peer.read_u8().await.unwrap(), STOPPED);
        peer.write_all(&[READING]).await.unwrap();
        fds
    });
    let successor = handed.unwrap();
    let link = UnixStream::from_std(fds[2].try_clone().unwrap().into()).unwrap();
    for nth in 0..2_000 {
        let mut junk = pattern(1 + nth * 37 % 3_000, nth as u64);
        // Kinds of messages, and others.
        junk[0] = nth as u8 % 6;
        let sent = link.async_io(Interest::WRITABLE, || {
            Ok(rustix::net::send(&link, &junk, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)?)
        });
        sent.await.unwrap();
    }
    // With descriptors, which nobody asked for.
    send_with(&link, &[9; 40], &[fds[0].as_fd(), fds[1].as_fd()]).await;
    drop((link, fds, peer));
    successor.lost().await;
    exchange(pair).await;
}

#[test]
fn another_process_that_breaks_the_rules_gets_nothing_and_leaks_nothing() {
    run(async {
        let (client, server) = configs(|_| ());
        // The first use of a runtime opens descriptors of its own.
        drop(UdpSocket::bind(any()).unwrap());
        drop(Endpoint::server(server.clone(), any()).unwrap());
        tokio::time::sleep(Duration::from_millis(50)).await;
        new_process_refuses_what_is_no_greeting(&server).await;
        old_process_goes_on_after_a_broken_answer(&server, &client).await;
    });
}
