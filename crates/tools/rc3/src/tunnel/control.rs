//! Messages of the control stream, in the frames of [`crate::transfer::message`].
//!
//! The client opens the first bidirectional stream and writes [`FromClient::Hello`]. The listening side reads nothing
//! more, and accepts no other stream, until it has authorised the client; it answers [`FromServer::Welcome`], or closes
//! the connection with a code. Then each [`FromClient::Listen`] gets one answer. A client that needs no
//! more ends the stream, and the listening side closes the connection when its targets have all bytes.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::transfer::ticket::SECRET_BYTES;

/// The protocol version. A listening side refuses others.
pub const VERSION: u16 = 2;

/// Client to listening side.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum FromClient {
    /// The first message.
    Hello {
        /// [`VERSION`].
        version: u16,
        /// The ticket's secret, from a client that has a ticket.
        secret: Option<[u8; SECRET_BYTES]>,
    },
    /// Listen for TCP connections.
    Listen {
        /// The client's number for this listener, for [`super::open::Open::Listener`].
        id: u16,
        /// The address.
        ip: IpAddr,
        /// The port; 0 is any free port.
        port: u16,
    },
}

/// Listening side to client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum FromServer {
    /// The client is authorised.
    Welcome,
    /// The listener is there.
    Listening {
        /// From [`FromClient::Listen`].
        id: u16,
        /// Its port.
        port: u16,
    },
    /// There is no listener.
    NotListening {
        /// From [`FromClient::Listen`].
        id: u16,
        /// The reason as text.
        reason: String,
    },
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::transfer::message::decode;

    #[test]
    fn messages_have_the_bytes_of_the_document() {
        let encoded = |message: &FromClient| crate::transfer::message::encode(message);
        assert_eq!(encoded(&FromClient::Hello { version: VERSION, secret: None }), [0, 0, 0, 3, 0, 2, 0]);
        let listen = FromClient::Listen { id: 2, ip: IpAddr::from([127, 0, 0, 1]), port: 80 };
        assert_eq!(encoded(&listen), [0, 0, 0, 8, 1, 2, 0, 127, 0, 0, 1, 80]);
    }

    proptest! {
        #[test]
        fn hostile_bytes_are_a_message_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = (decode::<FromClient>(&bytes), decode::<FromServer>(&bytes));
        }
    }
}
