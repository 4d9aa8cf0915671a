//! The answering side.

use std::{
    io,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket},
};

use super::{
    message::{ProbeMessage, Seen},
    watch::PacketWatch,
};

/// A socket at `address`, or at this port of all addresses of both IP versions (of IPv4 if the host has only that).
///
/// # Errors
/// If the address is not local or in use.
pub fn bind(address: Option<SocketAddr>, port: u16) -> io::Result<UdpSocket> {
    match address {
        Some(address) => UdpSocket::bind(address),
        None => UdpSocket::bind((Ipv6Addr::UNSPECIFIED, port)).or_else(|error| match error.kind() {
            io::ErrorKind::AddrInUse => Err(error),
            _ => UdpSocket::bind((Ipv4Addr::UNSPECIFIED, port)),
        }),
    }
}

/// Answers probes for ever. With CAP_NET_RAW answers report in which length the leading fragment arrived.
///
/// # Errors
/// When a socket fails.
pub fn serve(socket: &UdpSocket) -> io::Result<()> {
    let mut watch = PacketWatch::open(socket.local_addr()?.port())?;
    let mut question = [0; 2048];
    loop {
        match socket.recv_from(&mut question) {
            Ok((len, from)) => {
                if let Some(message) = ProbeMessage::parse_question(&question[..len]) {
                    let source = from.ip().to_canonical();
                    let seen = match &mut watch {
                        Some(watch) => watch.find(source, message.identification())?,
                        None => Seen::Unknown,
                    };
                    // The other side repeats questions whose answers are lost.
                    let _ = socket.send_to(&message.answer(seen), from);
                }
            }
            // A host that asked is gone.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
