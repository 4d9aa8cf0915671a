//! The client's connection: proves both identities and, with a ticket, pairs.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use rc3_net::{Endpoint, TransportConfig};
use tokio::time::timeout;

use super::{
    ALPN,
    control::{FromClient, FromServer, VERSION},
    files::Files,
    transport::open_up,
};
use crate::{
    error::{Error, ErrorKind, Result},
    identity::{
        mutual,
        peers::{KnownPeer, Pin},
    },
    transfer::{addresses, meet, network::Network, paths::printable, session::Control, ticket::Ticket},
};

/// The command that listens.
const COMMAND: &str = "rc3 tunnel --listen";
/// Time limit for the peer's answer to a message on the control stream.
const ANSWER_PATIENCE: Duration = Duration::from_secs(20);

/// The peer to connect to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PeerChoice {
    /// The holder of this ticket; it gets this name.
    Ticket(Ticket, String),
    /// The peer of this name in `known_peers`.
    Name(String),
}

impl PeerChoice {
    /// The ticket, whose secret authorises a new identity.
    pub(super) fn ticket(&self) -> Option<&Ticket> {
        match self {
            Self::Ticket(ticket, _) => Some(ticket),
            Self::Name(_) => None,
        }
    }
}

/// An authorised connection.
pub(super) struct Tunnel(pub(super) Control);

/// The peer.
pub(super) fn find(choice: &PeerChoice, files: &Files) -> Result<KnownPeer> {
    match choice {
        PeerChoice::Name(name) => files.known().find(name)?.ok_or_else(|| unknown(name)),
        PeerChoice::Ticket(ticket, name) => {
            let peer = KnownPeer {
                name: name.clone(),
                host: ticket.host().to_owned(),
                port: ticket.port(),
                fingerprint: ticket.fingerprint(),
            };
            // Before the peer gets the secret.
            files.known().check(&peer)?;
            Ok(peer)
        }
    }
}

/// An endpoint for connections to the peer, and the peer's addresses.
pub(super) async fn open(
    network: &Network,
    peer: &KnownPeer,
    ticket: Option<&Ticket>,
) -> Result<(Endpoint, Vec<SocketAddr>)> {
    let failed = |error: std::io::Error| Error::local(format!("find {}", peer.host), error);
    let addresses = match ticket {
        Some(ticket) => addresses::resolve(ticket).await?,
        None => addresses::addresses_of(&peer.host, peer.port).await.map_err(failed)?,
    };
    Ok((meet::open(network, &addresses)?, addresses))
}

impl Tunnel {
    /// Connects. A peer that was reached by ticket is known from now on.
    pub(super) async fn connect(
        endpoint: &Endpoint,
        addresses: &[SocketAddr],
        peer: &KnownPeer,
        ticket: Option<&Ticket>,
        files: &Files,
        transport: Arc<TransportConfig>,
    ) -> Result<(Self, Pin)> {
        let crypto = mutual::client(&files.identity()?, peer.fingerprint, ALPN)?;
        let hello = FromClient::Hello { version: VERSION, secret: ticket.map(|ticket| ticket.secret().0) };
        let control = meet::connect(endpoint, addresses, COMMAND, crypto, transport, &hello).await;
        let control = control.map_err(|error| match error.kind() {
            ErrorKind::WrongPeer => other_peer(peer),
            _ => error,
        })?;
        let mut tunnel = Self(control);
        let unauthorised = |error: Error| {
            match error.kind() {
            ErrorKind::Refused => error.hinted(
                "use a ticket of the running `rc3 tunnel --listen`, or add the line of `rc3 tunnel --show-identity` to \
                 authorized_peers there; use the same version of rc3 on both sides",
            ),
            _ => error,
        }
        };
        match tunnel.next_message().await.map_err(unauthorised)? {
            FromServer::Welcome => {}
            _ => return Err(Error::protocol("no answer to the first message")),
        }
        let connection = &tunnel.0.connection;
        open_up(connection);
        let Some(ticket) = ticket else { return Ok((tunnel, Pin::Known)) };
        let (mut peer, ip) = (peer.clone(), connection.remote_address().ip().to_canonical());
        if ticket.others().contains(&ip) {
            peer.host = ip.to_string();
        }
        let pin = files.known().pin(&peer)?;
        Ok((tunnel, pin))
    }

    /// Asks the peer to listen, and returns its port.
    pub(super) async fn listen(&mut self, id: u16, address: SocketAddr) -> Result<u16> {
        self.0.say(&FromClient::Listen { id, ip: address.ip(), port: address.port() }).await?;
        match self.next_message().await? {
            FromServer::Listening { id: answered, port } if answered == id => Ok(port),
            FromServer::NotListening { id: answered, reason } if answered == id => {
                let message = format!("the peer does not listen on {address}: {}", printable(&reason));
                let hint = "check that the peer runs with --allow-remote-listen and that the port is free";
                Err(Error::new(ErrorKind::Refused, message, hint))
            }
            _ => Err(Error::protocol("another answer than that to the request to listen")),
        }
    }

    /// Requests no more, and waits until the peer has closed the connection, which it does when its targets have taken
    /// all bytes.
    pub(super) async fn finish(mut self) {
        let _ = self.0.send.finish();
        self.0.connection.closed().await;
    }

    async fn next_message(&mut self) -> Result<FromServer> {
        let late = |_| Err(Error::lost("the peer does not answer"));
        timeout(ANSWER_PATIENCE, self.0.hear()).await.unwrap_or_else(late)
    }
}

fn unknown(name: &str) -> Error {
    let message = format!("{} is not a known peer", printable(name));
    let hint = "connect once with a ticket of `rc3 tunnel --listen`; later its host or --name is enough";
    Error::new(ErrorKind::Other, message, hint)
}

fn other_peer(peer: &KnownPeer) -> Error {
    let message = format!("{} has another identity than the pinned one", printable(&peer.host));
    let hint = "another host may pretend to be that peer; if its identity is really new, use a new ticket";
    Error::new(ErrorKind::WrongPeer, message, hint)
}
