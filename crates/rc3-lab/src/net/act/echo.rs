//! Round trips of small datagrams.

use std::{
    net::{Ipv4Addr, SocketAddr, UdpSocket},
    thread,
    time::Duration,
};

use crate::net::{clock, transport::Result};

/// A number and the time it was sent.
const LEN: usize = 16;

/// Returns datagrams to their senders.
pub(super) fn serve(address: SocketAddr) -> Result<()> {
    let socket = UdpSocket::bind(address)?;
    println!("ready");
    let mut datagram = [0; LEN];
    loop {
        let (len, from) = socket.recv_from(&mut datagram)?;
        // One that is lost shows at the other end.
        let _ = socket.send_to(&datagram[..len], from);
    }
}

/// Sends datagrams until the process is ended. Prints a line for each that returned: when it was sent, and its round trip
/// in nanoseconds.
pub(super) fn ping(address: SocketAddr, every: Duration) -> Result<()> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    socket.connect(address)?;
    let sender = socket.try_clone()?;
    thread::spawn(move || {
        loop {
            let mut datagram = [0; LEN];
            datagram[..8].copy_from_slice(&clock::now().to_be_bytes());
            let _ = sender.send(&datagram);
            thread::sleep(every);
        }
    });
    let mut datagram = [0; LEN];
    loop {
        // A receiver that does not listen yet is no reason to end.
        let Ok(LEN) = socket.recv(&mut datagram) else { continue };
        let sent = u64::from_be_bytes(datagram[..8].try_into()?);
        println!("{sent} {}", clock::now().saturating_sub(sent));
    }
}
