//! The side that connects: forwards what the command line asks for.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use rc3_net::{Connection, RecvStream, SendStream};
use tokio::{
    io::AsyncWriteExt,
    net::{TcpListener, TcpStream, UdpSocket},
    sync::Semaphore,
    task::JoinSet,
    time::timeout,
};

use super::{
    CONNECTIONS_MAX, DONE,
    address::Target,
    attained::INTERACTIVE,
    connect::{self, PeerChoice, Tunnel},
    dial::dial,
    flows::Flows,
    local,
    notes::Failures,
    open::{OPEN_PATIENCE, Open, OpenAnswer},
    proxy,
    relay::{self, Broken, TargetStream, relay_tcp},
    stopped,
    transport::transport,
    udp::Port,
};
use crate::{
    cli::{
        high::{network, rlp},
        tunnel::TunnelArgs,
    },
    error::{Error, ErrorKind, Result},
    identity::peers::{KnownPeer, Pin},
    log, notify,
    system::{self, Stop},
    transfer::{
        FAILED,
        conclude::{Parting, conclude},
        ended,
        meet::not_listening,
        outage::Tries,
        progress::{Reporter, Style},
    },
};

/// Time limit for a SOCKS client's request.
const PROXY_PATIENCE: Duration = Duration::from_secs(10);

/// Connects and forwards until interrupted, or until standard input and output have ended.
///
/// # Errors
/// When the peer cannot be reached, refuses, or breaks the rules; when a listener cannot be opened; and when the user
/// interrupts.
///
/// # Panics
/// Outside a tokio runtime with I/O and time.
pub async fn run(args: &TunnelArgs, peer: &PeerChoice) -> Result<()> {
    // An address that is taken ends the command before it connects.
    let listeners = bind(args).await?;
    let files = args.files()?;
    let (ticket, peer) = (peer.ticket(), connect::find(peer, &files)?);
    let network = network(args.network.clone());
    let (endpoint, addresses) = connect::open(&network, &peer, ticket).await?;
    let work = async {
        let (mut tries, mut reporter) = (Tries::new(network.give_up_after), Reporter::new(Style::Lines, ""));
        loop {
            let once = async {
                let transport = transport(rlp(args.rlp), &network);
                let (tunnel, pin) =
                    Tunnel::connect(&endpoint, &addresses, &peer, ticket, &files, transport).await?;
                announce(&peer, pin);
                forward(args, tunnel, &listeners, &peer).await
            };
            let Err(error) = once.await else { return Ok(()) };
            // Standard input has been read, and what the peer had of it is gone.
            if args.stdio.is_some() {
                return Err(error);
            }
            notify::status(&error.to_string());
            tries.wait_after(error, &mut reporter).await?;
        }
    };
    let mut stop = Stop::default();
    let parting = |error: Option<&Error>| {
        let (code, reason) = match error.map(Error::kind) {
            None => (DONE, "is done"),
            Some(ErrorKind::Interrupted) => (DONE, "was interrupted"),
            Some(_) => (FAILED, "failed"),
        };
        Parting { code, reason, is_needed: true }
    };
    let outcome = conclude(&endpoint, work, stopped(&mut stop), parting).await;
    // A stream that breaks off is not complete.
    if args.stdio.is_some() { outcome } else { stop.conclude(outcome) }
}

fn announce(peer: &KnownPeer, pin: Pin) {
    match pin {
        Pin::Known => {}
        Pin::New => {
            log::line(format_args!("paired: from now on without the ticket: rc3 tunnel {}", peer.name));
        }
        Pin::Moved => log::line(format_args!("the peer {} has another address now", peer.name)),
    }
}

/// A local listener.
enum Listener {
    /// With its target (`-L`), or without one for SOCKS clients, who name theirs (`-D`).
    Tcp(Arc<TcpListener>, Option<Target>),
    /// `-L .../udp`
    Udp(Arc<UdpSocket>, Target),
}

impl Listener {
    fn local_addr(&self) -> io::Result<SocketAddr> {
        match self {
            Self::Tcp(listener, _) => listener.local_addr(),
            Self::Udp(socket, _) => socket.local_addr(),
        }
    }
}

/// Opens the local listeners.
async fn bind(args: &TunnelArgs) -> Result<Vec<Listener>> {
    let local = args.local.iter().map(|forward| (forward.listen, Some(&forward.target), forward.udp));
    let dynamic = args.dynamic.iter().map(|&address| (address, None, false));
    let mut listeners = Vec::new();
    for (address, target, udp) in local.chain(dynamic) {
        let failed = |error| not_listening(address, error);
        listeners.push(match target {
            Some(target) if udp => {
                Listener::Udp(Arc::new(UdpSocket::bind(address).await.map_err(failed)?), target.clone())
            }
            _ => Listener::Tcp(Arc::new(TcpListener::bind(address).await.map_err(failed)?), target.cloned()),
        });
    }
    Ok(listeners)
}

/// What the tasks of a tunnel share.
struct TunnelState {
    connection: Connection,
    /// The targets of remote listeners, by their numbers.
    remote: Vec<Target>,
    failures: Arc<Failures>,
}

async fn forward(
    args: &TunnelArgs,
    mut tunnel: Tunnel,
    listeners: &[Listener],
    peer: &KnownPeer,
) -> Result<()> {
    let connection = tunnel.0.connection.clone();
    let remote = args.remote.iter().map(|forward| forward.target.clone()).collect();
    let shared =
        Arc::new(TunnelState { connection: connection.clone(), remote, failures: Arc::new(Failures::new()) });
    let mut tasks = JoinSet::new();
    start_listeners(listeners, &shared, peer, &mut tasks)?;
    // Streams of a remote listener may arrive before the reply about the next one.
    tasks.spawn(accept_streams(Arc::clone(&shared)));
    for (id, forward) in (0..).zip(&args.remote) {
        let port = tunnel.listen(id, forward.listen).await?;
        let address = SocketAddr::new(forward.listen.ip(), port);
        log::line(format_args!("{} listens on {address} for {}", peer.name, forward.target));
    }
    notify::ready(&format!("connected to {}", peer.name));
    let stdio = async {
        match &args.stdio {
            Some(target) => standard_streams(&connection, target).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        biased;
        ended = stdio => ended?,
        error = connection.closed() => return Err(error.into()),
    }
    // Resets the streams of other connections, for which the peer would wait.
    drop(tasks);
    tunnel.finish().await;
    Ok(())
}

fn start_listeners(
    listeners: &[Listener],
    shared: &Arc<TunnelState>,
    peer: &KnownPeer,
    tasks: &mut JoinSet<()>,
) -> Result<()> {
    let permits = Arc::new(Semaphore::new(CONNECTIONS_MAX as usize));
    let flows = Arc::new(Flows::default());
    for listener in listeners {
        let bound = listener.local_addr();
        let bound = bound.map_err(|error| Error::local("find the port of a listener", error))?;
        let shared = Arc::clone(shared);
        let whom = match listener {
            Listener::Tcp(listener, target) => {
                let whom = target.as_ref().map_or_else(|| "SOCKS clients".to_owned(), Target::to_string);
                let target = target.clone();
                let serve = move |tcp| serve_client(tcp, Arc::clone(&shared), target.clone());
                tasks.spawn(local::accept(Arc::clone(listener), Arc::clone(&permits), serve));
                whom
            }
            Listener::Udp(socket, target) => {
                let (socket, flows) = (Arc::clone(socket), Arc::clone(&flows));
                let port =
                    Port { socket, target: target.clone(), connection: shared.connection.clone(), flows };
                tasks.spawn(port.serve(Arc::clone(&shared.failures)));
                format!("{target}/udp")
            }
        };
        log::line(format_args!("listening on {bound} for {whom} of {}", peer.name));
    }
    let connection = shared.connection.clone();
    tasks.spawn(async move { flows.deliver(&connection).await });
    Ok(())
}

/// A connection to a local listener.
async fn serve_client(tcp: TcpStream, shared: Arc<TunnelState>, target: Option<Target>) {
    match target {
        Some(target) => serve_local(tcp, &shared, target).await,
        None => serve_proxy(tcp, &shared).await,
    }
}

async fn serve_local(tcp: TcpStream, shared: &TunnelState, target: Target) {
    let Ok(stream) = TargetStream::open(&shared.connection, &Open::Target(target.clone())).await else {
        return;
    };
    if let Err(Broken::Answer(answer)) = relay_tcp(tcp, stream, true).await {
        shared.failures.print_note(&format!("cannot reach {target}: {answer}"));
    }
}

async fn serve_proxy(mut tcp: TcpStream, shared: &TunnelState) {
    let (protocol, target) = match timeout(PROXY_PATIENCE, proxy::request(&mut tcp)).await {
        Ok(Ok(request)) => request,
        Ok(Err(error)) if error.kind() == io::ErrorKind::InvalidData => {
            return shared.failures.print_note(&error.to_string());
        }
        Ok(Err(_)) | Err(_) => return,
    };
    let Ok(mut stream) = TargetStream::open(&shared.connection, &Open::Target(target.clone())).await else {
        return;
    };
    let answer = match stream.answered().await {
        Ok(()) => OpenAnswer::Connected,
        Err(Broken::Answer(answer)) => answer,
        Err(_) => OpenAnswer::Unreachable,
    };
    if protocol.reply(&mut tcp, answer).await.is_err() {
        return;
    }
    if answer == OpenAnswer::Connected {
        let _ = relay_tcp(tcp, stream, false).await;
    } else {
        shared.failures.print_note(&format!("cannot reach {target}: {answer}"));
        let _ = tcp.shutdown().await;
    }
}

/// Serves the streams of remote listeners until the connection ends.
async fn accept_streams(shared: Arc<TunnelState>) {
    let mut tasks = JoinSet::new();
    loop {
        tokio::select! {
            stream = shared.connection.accept_bi() => {
                let Ok((send, recv)) = stream else { return };
                tasks.spawn(serve_remote(send, recv, Arc::clone(&shared)));
            }
            Some(_) = tasks.join_next() => {}
        }
    }
}

/// A connection to a `-R` listener. The peer chooses only which, not where it goes.
async fn serve_remote(send: SendStream, mut recv: RecvStream, shared: Arc<TunnelState>) {
    let _ = send.set_priority(INTERACTIVE);
    let open = timeout(OPEN_PATIENCE, Open::read(&mut recv)).await;
    let target = match &open {
        Ok(Ok(Open::Listener(id))) => shared.remote.get(usize::from(*id)),
        _ => None,
    };
    let connected = match target {
        Some(target) => dial(target).await,
        None => Err(OpenAnswer::Malformed),
    };
    if let (Some(target), Err(answer)) = (target, &connected) {
        shared.failures.print_note(&format!("cannot reach {target}: {}", here(*answer)));
    }
    relay::answer(TargetStream { send, recv }, connected).await;
}

/// The target of `--stdio` is out of reach.
fn out_of_reach(target: &Target, answer: OpenAnswer) -> Error {
    let (kind, hint) = match answer {
        OpenAnswer::NotAllowed => (ErrorKind::Refused, "run the peer with --allow HOST:PORT for that target"),
        _ => (ErrorKind::Other, "check that the target runs and that the peer can reach it"),
    };
    Error::new(kind, format!("cannot reach {target}: {answer}"), hint)
}

/// The words of an answer, for a target of this side.
fn here(answer: OpenAnswer) -> &'static str {
    match answer {
        OpenAnswer::NotFound => "no such host",
        OpenAnswer::Refused => "it refused the connection",
        OpenAnswer::TimedOut => "it did not answer",
        _ => "there is no way to it",
    }
}

/// Standard input and output, until both directions have ended.
async fn standard_streams(connection: &Connection, target: &Target) -> Result<()> {
    let stream = TargetStream::open(connection, &Open::Target(target.clone())).await?;
    let (reader, writer) = (tokio::io::stdin(), tokio::io::stdout());
    // Closed at its end, so that the program behind it reads that.
    let relayed = relay::relay(reader, writer, system::close_stdout, stream, true);
    relayed.await.map_err(|error| match error {
        Broken::Answer(answer) => out_of_reach(target, answer),
        error => ended(connection, Error::lost(error)),
    })
}
