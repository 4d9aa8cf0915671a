//! Carries UDP datagrams through ssh, between a socket on loopback and frames.
//!
//! A full pipe stops the reading of the socket, whose buffer then drops what does not fit: to QUIC, ssh is a path with a
//! queue of bounded length.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
};

use bytes::Bytes;
use tokio::{net::UdpSocket, task::JoinSet};

use super::wire::Frame;
use crate::transfer::{message::encode, session::Outbox};

/// Most bytes of a datagram.
const DATAGRAM_BYTES_MAX: usize = 65_535;

/// One end of the relay; ends when dropped.
pub(super) struct Relay {
    socket: Arc<UdpSocket>,
    /// The task that sends.
    _sending: JoinSet<()>,
}

impl Relay {
    /// Relays the datagrams of the endpoint at `port` of this host, and of no other program. Also returns where that
    /// endpoint reaches the peer.
    pub(super) async fn start(port: u16, outbox: Outbox) -> io::Result<(Self, SocketAddr)> {
        let socket = Arc::new(UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await?);
        socket.connect((Ipv4Addr::LOCALHOST, port)).await?;
        let (from, address) = (Arc::clone(&socket), socket.local_addr()?);
        let mut sending = JoinSet::new();
        sending.spawn(async move {
            let mut buf = vec![0; DATAGRAM_BYTES_MAX];
            loop {
                // Errors are ICMP's, of an endpoint that is not ready or has left.
                let Ok(read) = from.recv(&mut buf).await else { continue };
                let datagram = Frame::Datagram(Bytes::copy_from_slice(&buf[..read]));
                if outbox.send(encode(&datagram)).await.is_err() {
                    return;
                }
            }
        });
        Ok((Self { socket, _sending: sending }, address))
    }

    /// A datagram of the peer. Lost if the endpoint does not take it, as in a network.
    pub(super) async fn deliver(&self, datagram: &[u8]) {
        let _ = self.socket.send(datagram).await;
    }
}
