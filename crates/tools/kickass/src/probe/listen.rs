//! The answering side.

use std::{
    io,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket},
};

use super::message::Message;

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

/// Answers probes for ever.
///
/// # Errors
/// When the socket fails.
pub fn serve(socket: &UdpSocket) -> io::Result<()> {
    let mut question = [0; 2048];
    loop {
        match socket.recv_from(&mut question) {
            Ok((len, from)) => {
                if let Some(answer) = Message::answer(&question[..len]) {
                    // The other side repeats questions whose answers are lost.
                    let _ = socket.send_to(&answer, from);
                }
            }
            // A host that asked is gone.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
