//! The answering side.

use std::{io, net::UdpSocket};

use super::message::Message;

/// Answers questions for ever.
///
/// # Errors
/// When the socket fails.
pub fn serve(socket: &UdpSocket) -> io::Result<()> {
    let mut question = [0; 2048];
    loop {
        match socket.recv_from(&mut question) {
            Ok((len, from)) => {
                if let Some(answer) = Message::answer(&question[..len]) {
                    // Lost answers are asked for again.
                    let _ = socket.send_to(&answer, from);
                }
            }
            // Somebody who asked is gone.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
