//! One transfer over a connection that another command sets up: for `rc3 copy`, where either side may listen.
//!
//! A sender that connects shows the secret in `Hello`, as `rc3 send` does. A receiver that connects shows it on a stream
//! of its own; then the sender opens the control stream, and its `Hello` shows the secret to the receiver.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use rc3_net::{ClientConfig, Congestion, Connection, Endpoint, RlpMode, ServerConfig};
use serde::{Deserialize, Serialize};
use tokio::time::timeout;

use super::{
    FAILED, IDLE_TIMEOUT, STREAMS_MAX,
    admission::Senders,
    asked::Asked,
    close_code,
    destination::Destination,
    error::TransferError,
    identity::{Identity, SERVER_NAME, client},
    inbound::{Finish, Transfer},
    lost,
    manifest::Found,
    message::{self, ALPN, VERSION},
    network::Network,
    newcomers::{Authorise, Newcomers, authorise},
    not_connected, outbound,
    progress::Reporter,
    random::random,
    receive::{STEP_PATIENCE, bind, wind_up},
    send::SendJob,
    session::Session,
    ticket::{Fingerprint, SECRET_BYTES, Secret, Ticket},
    transport,
};

/// Application protocol of a receiver that connects.
const FETCH_ALPN: &[u8] = b"rc3-fetch/1";

/// Time for the peer to connect.
const MEET_PATIENCE: Duration = Duration::from_secs(60);

/// The first message of a receiver that connects.
#[derive(Debug, Serialize, Deserialize)]
struct Fetch {
    version: u16,
    secret: [u8; SECRET_BYTES],
}

/// What the listening side does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// It sends to a receiver that connects.
    Sender,
    /// It receives from a sender that connects.
    Receiver,
}

/// Transport settings of one side.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) rlp: RlpMode,
    pub(crate) congestion: Congestion,
    pub(crate) network: Network,
}

/// Waits for one peer with the secret.
pub(crate) struct Listener {
    pub(crate) endpoint: Endpoint,
    pub(crate) address: SocketAddr,
    pub(crate) fingerprint: Fingerprint,
    pub(crate) secret: Secret,
}

impl Listener {
    /// Listens at `address`; `None` is any address and port.
    pub(crate) fn open(
        role: Role,
        settings: &Settings,
        address: Option<SocketAddr>,
    ) -> Result<Self, TransferError> {
        let identity = Identity::generate()?;
        let (alpn, streams) = match role {
            Role::Sender => (FETCH_ALPN, 1),
            Role::Receiver => (ALPN, STREAMS_MAX),
        };
        let mut config = ServerConfig::with_crypto(Arc::new(identity.server(alpn)?));
        config.transport_config(Arc::new(transport(
            settings.rlp,
            settings.congestion,
            None,
            streams,
            IDLE_TIMEOUT,
        )?));
        let endpoint = bind(&config, &settings.network, address)?;
        let found = endpoint.local_addr();
        let address =
            found.map_err(|error| TransferError::Local { what: "find the port".to_owned(), error })?;
        let secret = Secret(random()?);
        Ok(Self { endpoint, address, fingerprint: identity.fingerprint(), secret })
    }

    /// Receives from the first sender with the secret.
    pub(crate) async fn receive(
        &self,
        destination: &Destination,
        reporter: &mut Reporter,
    ) -> Result<(), TransferError> {
        let session = self.meet(Senders { secret: self.secret }).await?;
        receive_from(session.asked_for(Asked::Files), destination, reporter).await
    }

    /// Sends to the first receiver with the secret.
    pub(crate) async fn send(
        &self,
        job: &SendJob,
        found: &Found,
        reporter: &mut Reporter,
    ) -> Result<(), TransferError> {
        let connection = self.meet(Fetchers { secret: self.secret }).await?;
        let unkept = outbound::converse_over(&connection, &self.endpoint, job, found, reporter).await?;
        unkept.report(reporter);
        unkept.result(found.left_out.len())
    }

    async fn meet<A: Authorise>(&self, authority: A) -> Result<A::Authorised, TransferError> {
        let mut newcomers = Newcomers::new(self.endpoint.clone(), authority);
        let authorised = async {
            loop {
                if let Ok(authorised) = newcomers.next().await {
                    return authorised;
                }
            }
        };
        timeout(MEET_PATIENCE, authorised).await.map_err(|_| TransferError::Stalled(MEET_PATIENCE))
    }

    /// The secret as a sender shows it; the peer knows the address already.
    pub(crate) fn ticket(&self) -> Result<Ticket, TransferError> {
        let Self { address, fingerprint, secret, .. } = *self;
        let ticket = Ticket::new(&address.ip().to_string(), address.port(), fingerprint, secret);
        ticket.map_err(|error| TransferError::Protocol(error.to_string()))
    }
}

/// The receivers with the secret.
#[derive(Clone)]
struct Fetchers {
    secret: Secret,
}

impl Authorise for Fetchers {
    type Authorised = Connection;

    async fn authorise(self, connection: Connection) -> Result<Connection, String> {
        let mut stream = connection.accept_uni().await.map_err(|error| error.to_string())?;
        let fetch = message::read::<Fetch>(&mut stream).await.map_err(|error| error.to_string())?;
        if fetch.version == VERSION && Secret(fetch.secret) == self.secret {
            return Ok(connection);
        }
        connection.close(FAILED, b"refused");
        Err("the secret or the version is wrong".to_owned())
    }
}

/// Sends to a listening receiver.
pub(crate) async fn send(
    endpoint: &Endpoint,
    address: SocketAddr,
    job: &SendJob,
    found: &Found,
    reporter: &mut Reporter,
) -> Result<(), TransferError> {
    let unkept = outbound::converse(endpoint, address, job, found, reporter).await?;
    unkept.report(reporter);
    unkept.result(found.left_out.len())
}

/// Receives from a listening sender what it was asked for.
pub(crate) async fn fetch(
    endpoint: &Endpoint,
    address: SocketAddr,
    ticket: &Ticket,
    settings: &Settings,
    asked: Asked,
    destination: &Destination,
    reporter: &mut Reporter,
) -> Result<(), TransferError> {
    let mut config = ClientConfig::new(Arc::new(client(ticket.fingerprint(), FETCH_ALPN)?));
    let transport = transport(settings.rlp, settings.congestion, None, STREAMS_MAX, IDLE_TIMEOUT)?;
    config.transport_config(Arc::new(transport));
    let connecting = endpoint
        .connect_with(config, address, SERVER_NAME)
        .map_err(|error| TransferError::Connect { address, reason: error.to_string() })?;
    let connection = connecting.await.map_err(|error| not_connected(address, error))?;
    let shown = timeout(STEP_PATIENCE, show(&connection, ticket)).await;
    shown.map_err(|_| TransferError::Stalled(STEP_PATIENCE))??;
    let authority = Senders { secret: ticket.secret() };
    let session = authorise(authority, connection).await.map_err(TransferError::Lost)?;
    receive_from(session.asked_for(asked), destination, reporter).await
}

/// Shows the secret to a sender.
async fn show(connection: &Connection, ticket: &Ticket) -> Result<(), TransferError> {
    let mut stream = connection.open_uni().await.map_err(lost)?;
    let shown = message::encode(&Fetch { version: VERSION, secret: ticket.secret().0 });
    stream.write_chunk(shown.into()).await.map_err(outbound::broken)?;
    let _ = stream.finish();
    Ok(())
}

async fn receive_from(
    session: Session,
    destination: &Destination,
    reporter: &mut Reporter,
) -> Result<(), TransferError> {
    let connection = session.connection.clone();
    let outcome = Transfer::run(session, destination, reporter).await;
    let (code, reason) = close_code(outcome.as_ref().err());
    connection.close(code, reason.as_bytes());
    match outcome? {
        Finish::Complete(result) => result,
        Finish::DryRun => Ok(()),
    }
}

/// The last steps of either side: signals the outcome to the peer, and waits until it has left.
pub(crate) async fn close(
    endpoint: &Endpoint,
    destination: Option<&Destination>,
    outcome: Result<(), TransferError>,
) -> Result<(), TransferError> {
    let (code, reason) = close_code(outcome.as_ref().err());
    endpoint.close(code, reason.as_bytes());
    if let Some(destination) = destination {
        return wind_up(endpoint, destination, outcome).await;
    }
    let _ = timeout(Duration::from_secs(1), endpoint.wait_idle()).await;
    endpoint.save_paths().await;
    outcome
}
