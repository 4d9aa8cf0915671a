//! The side that listens: authorises peers, connects to targets, and listens for them.

use std::{collections::HashSet, net::SocketAddr, sync::Arc};

use ::metrics::{counter, gauge};
use rc3_net::{Connection, Endpoint, ServerConfig};
use tokio::{sync::Semaphore, task::JoinSet, time::timeout};

use super::{
    ALPN, BROKEN, CONNECTIONS_MAX, DONE, LISTENERS_MAX, PORT,
    allow::is_allowed,
    attained::INTERACTIVE,
    control::{FromClient, FromServer, VERSION},
    dial::{dial, dial_udp},
    flows::Flows,
    open::{OPEN_PATIENCE, Open, OpenAnswer},
    relay::{self, TargetStream},
    remote,
    transport::{open_up, transport},
    udp,
};
use crate::{
    cli::{
        high::{network, rlp},
        ticket::publish,
        tunnel::TunnelArgs,
    },
    error::{Error, Result},
    identity::{mutual, peers::AuthorizedPeers},
    log, metrics, notify,
    transfer::{
        BUSY, FAILED, REFUSED, UNAUTHORISED, ended, meet,
        message::{self, MessageError},
        newcomers::{Newcomers, Rejection},
        progress::count,
        pulse::Pulses,
        random::random,
        reachable, serve_until_stopped,
        session::Control,
        ticket::{Fingerprint, SECRET_BYTES, Secret},
    },
};

/// Most authorised peers at once.
const PEERS_MAX: usize = 64;
/// Bound in bytes on the memory that all peers together can use, authorised or not, and on what they may still send.
const MEMORY_MAX: u64 = 1 << 30;

/// Prints a ticket and serves until interrupted.
///
/// # Errors
/// When it cannot listen, and at the end: the user interrupts it.
///
/// # Panics
/// Outside a tokio runtime with I/O and time.
pub async fn serve(args: &TunnelArgs) -> Result<()> {
    metrics::serve(args.metrics)?;
    let files = args.files()?;
    let (identity, authorized) = (files.identity()?, files.authorized());
    // A list that cannot be used should be noticed before a peer is refused.
    authorized.contains(identity.fingerprint())?;
    let mut config = ServerConfig::with_crypto(Arc::new(mutual::server(&identity, ALPN)?));
    let network = network(args.network.clone());
    config.transport_config(transport(rlp(args.rlp), &network));
    let endpoint = meet::bind(&config, &identity, &network, args.bind, PORT, MEMORY_MAX)?;
    let secret = (!args.no_ticket).then(random::<SECRET_BYTES>).transpose()?.map(Secret);
    let bound = endpoint.local_addr().map_err(|error| Error::local("find the port", error))?;
    log::line(format_args!("listening on UDP {bound}"));
    let invite = |secret| {
        let ticket = reachable::invite(bound, args.advertise.as_ref(), identity.fingerprint(), secret)?;
        publish(&ticket, args.bind, args.ticket_file.as_deref(), "rc3 tunnel -L PORT:HOST:HOSTPORT")
    };
    // Removed on drop.
    let _written = secret.map(invite).transpose()?;
    let shared = Arc::new(args.clone());
    let serving = admit(&endpoint, AllowedPeers { secret, authorized }, &shared);
    let stop = serve_until_stopped(&endpoint, serving, &status(0)).await;
    endpoint.save_paths().await;
    stop.conclude(Err(Error::interrupted(0)))
}

/// Serves every authorised peer in a task, until the endpoint closes.
async fn admit(endpoint: &Endpoint, peers: AllowedPeers, args: &Arc<TunnelArgs>) {
    let admit = move |connection: &Connection, hello: &FromClient| peers.admit(connection, hello);
    let mut newcomers = Newcomers::new(endpoint.clone(), admit);
    let (mut sessions, mut pulses) = (JoinSet::new(), Pulses::default());
    loop {
        let admitted = tokio::select! {
            Some(_) = sessions.join_next() => {
                report(sessions.len());
                continue;
            }
            admitted = newcomers.next() => admitted,
        };
        match admitted {
            Ok((peer, _)) if sessions.len() < PEERS_MAX => {
                pulses.add(peer.connection.clone());
                let args = Arc::clone(args);
                sessions.spawn(async move {
                    let remote = peer.connection.remote_address();
                    log::line(format_args!("{remote}: connected"));
                    let error = serve_peer(peer, &args).await;
                    log::line(format_args!("{remote}: {error}"));
                });
                report(sessions.len());
            }
            Ok((peer, _)) => {
                // One that tries again finds the place of a silent one free.
                pulses.give_way("was silent while another peer waited");
                peer.connection.close(BUSY, b"is busy with other peers");
            }
            Err(line) => log::line(&line),
        }
    }
}

/// Reports how many peers are connected.
fn report(peers: usize) {
    notify::status(&status(peers));
    gauge!("rc3_tunnel_peers").set(peers as f64);
}

/// One line for the manager of a service.
fn status(peers: usize) -> String {
    format!("{} connected", count(peers, "peer"))
}

/// The peers with an authorised identity or the ticket's secret.
struct AllowedPeers {
    secret: Option<Secret>,
    authorized: AuthorizedPeers,
}

impl AllowedPeers {
    /// Whether a peer that begins with this message may stay. It needs no details.
    fn admit(&self, connection: &Connection, hello: &FromClient) -> Result<(), Rejection> {
        let refused = |details: String| Rejection {
            code: UNAUTHORISED,
            reason: "does not authorise this identity".to_owned(),
            details,
        };
        let FromClient::Hello { version, secret } = hello else {
            return Err(refused("the first message must be `Hello`".to_owned()));
        };
        let paired = self.check(connection, secret.map(Secret)).map_err(refused)?;
        if *version != VERSION {
            let reason = format!("it has version {VERSION}, this side {version}");
            let details = format!("it has version {version}, this side {VERSION}");
            return Err(Rejection { code: REFUSED, reason, details });
        }
        paired.map_or(Ok(()), |fingerprint| self.authorise(connection, fingerprint)).map_err(refused)
    }

    /// Whether a peer may connect. Returns an identity that has shown the ticket's secret and is not authorised yet.
    fn check(&self, connection: &Connection, secret: Option<Secret>) -> Result<Option<Fingerprint>, String> {
        let fingerprint = mutual::peer(connection).ok_or("it has shown no identity")?;
        if self.authorized.contains(fingerprint).map_err(|error| error.to_string())? {
            return Ok(None);
        }
        if secret.is_none() || secret != self.secret {
            return Err(format!("identity {fingerprint} is not authorised"));
        }
        Ok(Some(fingerprint))
    }

    /// From now on this identity needs no ticket.
    fn authorise(&self, connection: &Connection, fingerprint: Fingerprint) -> Result<(), String> {
        let remote = connection.remote_address();
        let comment = format!("paired from {}", remote.ip().to_canonical());
        self.authorized.add(fingerprint, &comment).map_err(|error| error.to_string())?;
        log::line(format_args!("{remote}: paired, identity {fingerprint}"));
        Ok(())
    }
}

/// Serves a peer until its connection ends; returns why.
async fn serve_peer(peer: Control, args: &Arc<TunnelArgs>) -> Error {
    let Control { connection, send: mut control, recv: requests } = peer;
    open_up(&connection);
    let mut messages = message::listen::<FromClient>(requests);
    let permits = Arc::new(Semaphore::new(CONNECTIONS_MAX as usize));
    let (mut streams, mut listening, mut listeners) = (JoinSet::new(), JoinSet::new(), HashSet::new());
    let mut reply = Some(FromServer::Welcome);
    let flows = Arc::new(Flows::default());
    let deliver = flows.deliver(&connection);
    tokio::pin!(deliver);
    loop {
        if let Some(reply) = reply.take()
            && control.write_chunk(message::encode(&reply).into()).await.is_err()
        {
            return end(&connection, "the control stream broke");
        }
        tokio::select! {
            request = messages.recv() => {
                let (id, ip, port) = match request {
                    Some(Ok(FromClient::Listen { id, ip, port })) => (id, ip, port),
                    Some(Err(MessageError::Ended)) => {
                        drop(listening);
                        return finish(&connection, streams).await;
                    }
                    _ => return end(&connection, "no valid message on the control stream"),
                };
                reply = Some(if !listeners.insert(id) || listeners.len() > LISTENERS_MAX {
                    FromServer::NotListening { id, reason: format!("it allows {LISTENERS_MAX} listeners") }
                } else {
                    match remote::open(args.allow_remote_listen, SocketAddr::new(ip, port)).await {
                        Ok((listener, port)) => {
                            listening.spawn(remote::forward(listener, id, connection.clone(), Arc::clone(&permits)));
                            FromServer::Listening { id, port }
                        }
                        Err(reason) => FromServer::NotListening { id, reason: message::reason(reason) },
                    }
                });
            }
            stream = connection.accept_bi() => match stream {
                Ok((send, recv)) => {
                    let stream = TargetStream { send, recv };
                    streams.spawn(serve_stream(connection.clone(), stream, Arc::clone(&flows), Arc::clone(args)));
                }
                Err(error) => return error.into(),
            },
            Some(_) = streams.join_next() => {}
            // It ends with the connection.
            () = &mut deliver => return connection.closed().await.into(),
        }
    }
}

/// Closes the connection of a peer that needs no more streams, once the targets have taken the bytes of all that there
/// are: the peer cannot see that, and would take bytes with it if it closed.
async fn finish(connection: &Connection, mut streams: JoinSet<()>) -> Error {
    let served = async { while streams.join_next().await.is_some() {} };
    tokio::select! {
        () = served => connection.close(DONE, b"is done"),
        error = connection.closed() => return error.into(),
    }
    Error::lost("the other side is done")
}

/// The end of a connection whose peer violates the protocol, or has ended it.
fn end(connection: &Connection, what: &str) -> Error {
    let error = ended(connection, Error::protocol(what));
    connection.close(FAILED, what.as_bytes());
    error
}

/// One TCP connection or UDP flow for a peer.
async fn serve_stream(
    connection: Connection,
    mut stream: TargetStream,
    flows: Arc<Flows>,
    args: Arc<TunnelArgs>,
) {
    let _ = stream.send.set_priority(INTERACTIVE);
    let Ok(open) = timeout(OPEN_PATIENCE, Open::read(&mut stream.recv)).await else {
        let _ = stream.send.reset(BROKEN);
        return;
    };
    let count = |answer: OpenAnswer| {
        counter!("rc3_tunnel_connections", "answer" => answer.code().to_string()).increment(1);
    };
    let connected = match open {
        // A target that is not allowed is neither resolved nor contacted.
        Ok(Open::Target(target) | Open::Flow(_, target)) if !is_allowed(&args.allow, &target) => {
            Err(OpenAnswer::NotAllowed)
        }
        Ok(Open::Target(target)) => dial(&target).await,
        Ok(Open::Flow(number, target)) => {
            let opened = dial_udp(&target).await.and_then(|socket| {
                flows.numbered(number, Arc::new(socket), None).ok_or(OpenAnswer::Unreachable)
            });
            count(OpenAnswer::about(&opened));
            return udp::answer(&connection, stream, opened).await;
        }
        Ok(Open::Listener(_)) | Err(_) => Err(OpenAnswer::Malformed),
    };
    count(OpenAnswer::about(&connected));
    relay::answer(stream, connected).await;
}
