//! The client's connection: proves both identities and, with a ticket, pairs.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use rc3_net::{ClientConfig, Connection, Endpoint, RecvStream, RlpMode, SendStream};
use tokio::time::timeout;

use super::{
    ALPN,
    control::{FromClient, FromServer, VERSION},
    error::TunnelError,
    files::Files,
    transport::{open_up, transport},
};
use crate::{
    error::Error,
    identity::{
        mutual,
        peers::{KnownPeer, Pin},
    },
    transfer::{
        identity::SERVER_NAME,
        meet, message,
        network::Network,
        no_connection, not_connected,
        ticket::{Secret, Ticket},
    },
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

/// An authorised connection.
pub(super) struct Tunnel {
    pub(super) connection: Connection,
    control: SendStream,
    replies: RecvStream,
}

/// The peer, and the secret that authorises a new identity.
pub(super) fn find(choice: &PeerChoice, files: &Files) -> Result<(KnownPeer, Option<Secret>), TunnelError> {
    match choice {
        PeerChoice::Name(name) => {
            let peer = files.known().find(name)?.ok_or_else(|| TunnelError::Unknown(name.clone()))?;
            Ok((peer, None))
        }
        PeerChoice::Ticket(ticket, name) => {
            let peer = KnownPeer {
                name: name.clone(),
                host: ticket.host().to_owned(),
                port: ticket.port(),
                fingerprint: ticket.fingerprint(),
            };
            // Before the peer gets the secret.
            files.known().check(&peer)?;
            Ok((peer, Some(ticket.secret())))
        }
    }
}

/// An endpoint for connections to the peer, and the peer's address.
pub(super) async fn open(network: &Network, peer: &KnownPeer) -> Result<(Endpoint, SocketAddr), TunnelError> {
    let failed = |error: std::io::Error| Error::local(format!("find {}", peer.host), error);
    let mut addresses = tokio::net::lookup_host((peer.host.as_str(), peer.port)).await.map_err(failed)?;
    let address = addresses.next().ok_or_else(|| failed(std::io::ErrorKind::NotFound.into()))?;
    Ok((meet::open(network, address)?, address))
}

impl Tunnel {
    /// Connects. A peer that was reached by ticket is known from now on.
    pub(super) async fn connect(
        endpoint: &Endpoint,
        address: SocketAddr,
        peer: &KnownPeer,
        secret: Option<Secret>,
        files: &Files,
        rlp: RlpMode,
    ) -> Result<(Self, Pin), TunnelError> {
        let crypto = mutual::client(&files.identity()?, peer.fingerprint, ALPN)?;
        let mut config = ClientConfig::new(Arc::new(crypto));
        config.transport_config(transport(rlp));
        let connecting = endpoint
            .connect_with(config, address, SERVER_NAME)
            .map_err(|error| no_connection(address, COMMAND, &error.to_string()))?;
        let connection = connecting.await.map_err(|error| not_connected(address, COMMAND, error))?;
        let (control, replies) = connection.open_bi().await?;
        let mut tunnel = Self { connection, control, replies };
        tunnel.say(&FromClient::Hello { version: VERSION, secret: secret.map(|secret| secret.0) }).await?;
        match tunnel.hear().await? {
            FromServer::Welcome => {}
            _ => return Err(protocol("no answer to the first message")),
        }
        open_up(&tunnel.connection);
        let pin = if secret.is_some() { files.known().pin(peer)? } else { Pin::Known };
        Ok((tunnel, pin))
    }

    /// Asks the peer to listen, and returns its port.
    pub(super) async fn listen(&mut self, id: u16, address: SocketAddr) -> Result<u16, TunnelError> {
        self.say(&FromClient::Listen { id, ip: address.ip(), port: address.port() }).await?;
        match self.hear().await? {
            FromServer::Listening { id: answered, port } if answered == id => Ok(port),
            FromServer::NotListening { id: answered, reason } if answered == id => {
                let reason = crate::transfer::paths::printable(&reason);
                Err(TunnelError::RemoteListen { address, reason })
            }
            _ => Err(protocol("another answer than that to the request to listen")),
        }
    }

    /// Requests no more, and waits until the peer has closed the connection, which it does when its targets have taken
    /// all bytes.
    pub(super) async fn finish(mut self) {
        let _ = self.control.finish();
        self.connection.closed().await;
    }

    async fn say(&mut self, message: &FromClient) -> Result<(), TunnelError> {
        let written = self.control.write_chunk(message::encode(message).into()).await;
        written.map_err(|error| self.ended().unwrap_or_else(|| TunnelError::Lost(error.to_string())))
    }

    async fn hear(&mut self) -> Result<FromServer, TunnelError> {
        match timeout(ANSWER_PATIENCE, message::read(&mut self.replies)).await {
            Ok(Ok(reply)) => Ok(reply),
            Ok(Err(error)) => Err(self.ended().unwrap_or_else(|| error.into())),
            Err(_) => Err(TunnelError::Lost("the peer does not answer".to_owned())),
        }
    }

    /// Why the connection has ended, if it has.
    fn ended(&self) -> Option<TunnelError> {
        self.connection.close_reason().map(TunnelError::from)
    }
}

fn protocol(what: &str) -> TunnelError {
    TunnelError::Other(Error::protocol(what))
}
