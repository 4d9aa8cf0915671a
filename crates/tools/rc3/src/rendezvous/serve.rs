//! `rc3 meet`: sockets and clocks around `rooms.rs`.

use std::{
    collections::HashMap,
    future::pending,
    io,
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use rc3_cli::output;
use rc3_net::{Connection, Endpoint, Incoming, RlpMode, ServerConfig, Slot, Slots, TransportConfig, VarInt};
use tokio::{
    io::BufReader,
    net::UdpSocket,
    sync::mpsc,
    task::JoinSet,
    time::{interval, timeout},
};

use super::{
    PORT,
    code::Place,
    message::{ALPN, FromParty, FromRendezvous, MESSAGE_BYTES_MAX},
    relay::Relay,
    rooms::{MESSAGES_MAX, PartyId, ROOMS_MAX, ROOMS_PER_SITE_MAX, Rooms, UNUSED_MAX},
    visit::WINDOW,
};
use crate::{
    cli::low::MeetArgs,
    error::{Error, Result},
    log,
    transfer::{
        addresses::canonical,
        identity::Identity,
        meet,
        message::{encode, listen_up_to},
        network::Network,
        random::random,
        reachable, serve_until_stopped,
        session::{finished, outbox},
    },
};

/// Most connections: hosts and guests, in all and of one site. Beyond them the oldest of the site with most gives way.
const CONNECTIONS_MAX: usize = 2 * ROOMS_MAX;
const CONNECTIONS_PER_SITE_MAX: usize = 3 * ROOMS_PER_SITE_MAX;
/// Bound in bytes on what all connections together may send ahead.
const MEMORY_MAX: u64 = 32 << 20;
/// Time for the handshake, the first message and the last.
const PATIENCE: Duration = Duration::from_secs(10);
/// Time between two looks at what has expired or moved.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Most messages that wait for a party: rooms have no more for it.
const OUTGOING_MAX: usize = MESSAGES_MAX + 3;
/// Events that wait.
const EVENTS_MAX: usize = 256;
/// Longest datagram.
const DATAGRAM_BYTES_MAX: usize = 65_535;

/// What happens at a connection.
enum Event {
    Came(PartyId, mpsc::Sender<FromRendezvous>),
    Heard(PartyId, SocketAddr, FromParty),
    Moved(PartyId, SocketAddr),
    Left(PartyId),
}

/// Serves until interrupted.
///
/// # Errors
/// When it cannot listen, and at the end: the user interrupts it.
///
/// # Panics
/// Outside a tokio runtime with I/O and time.
pub async fn serve(args: MeetArgs) -> Result<()> {
    let endpoint = bind(args.bind)?;
    let bound = endpoint.local_addr().map_err(|error| Error::local("find the port", error))?;
    let (relay, socket) = match args.relay {
        None => (None, None),
        Some(port) => {
            let socket = relay_socket(SocketAddr::new(bound.ip(), port)).await;
            let (socket, port) =
                socket.map_err(|error| Error::local(format!("relay at port {port}"), error))?;
            (Some((Relay::new(args.relay_rate), port)), Some(socket))
        }
    };
    let host = reachable::reachable(bound.ip()).first().map_or_else(|| bound.ip(), |ip| *ip).to_string();
    let place = Place { host, port: bound.port() };
    let port = relay.as_ref().map_or_else(String::new, |(_, port)| format!("; relaying at UDP port {port}"));
    log::line(format_args!("listening on UDP {bound}{port}"));
    log::line(format_args!("on the other machines: rc3 recv --meet {place}, or set RC3_MEET to:"));
    output::print(&format!("{place}\n")).map_err(|error| Error::local("print the address", error))?;
    let serving = run(&endpoint, Rooms::new(relay), socket);
    let stop = serve_until_stopped(&endpoint, serving, "waiting").await;
    stop.conclude(Err(Error::interrupted(0)))
}

/// The endpoint. Its identity is another in each run: nobody trusts it.
fn bind(at: Option<SocketAddr>) -> Result<Endpoint> {
    let mut transport = TransportConfig::default();
    transport
        .rlp(RlpMode::Off)
        .max_idle_timeout(UNUSED_MAX.try_into().ok())
        .receive_window(WINDOW)
        .stream_receive_window(WINDOW)
        .max_concurrent_bidi_streams(VarInt::from_u32(1))
        .max_concurrent_uni_streams(VarInt::from_u32(0));
    let identity = Identity::generate()?;
    let mut config = ServerConfig::with_crypto(Arc::new(identity.server(ALPN)?));
    config.transport_config(Arc::new(transport));
    meet::bind(&config, &identity, &Network::default(), at, PORT, MEMORY_MAX)
}

async fn relay_socket(at: SocketAddr) -> io::Result<(UdpSocket, u16)> {
    let socket = UdpSocket::bind(at).await?;
    let port = socket.local_addr()?.port();
    Ok((socket, port))
}

/// Serves until the endpoint is closed.
async fn run(endpoint: &Endpoint, mut rooms: Rooms, socket: Option<UdpSocket>) {
    let slots = Slots::new(CONNECTIONS_MAX, CONNECTIONS_PER_SITE_MAX);
    let (happened, mut events) = mpsc::channel(EVENTS_MAX);
    let (mut parties, mut attending, mut last) = (HashMap::new(), JoinSet::new(), 0);
    let mut buf = vec![0; DATAGRAM_BYTES_MAX];
    let mut look = interval(LOOK_EVERY);
    loop {
        tokio::select! {
            incoming = endpoint.accept() => {
                let Some(incoming) = incoming else { return };
                if let Some((incoming, slot)) = slots.admit(incoming) {
                    last += 1;
                    attending.spawn(attend(last, incoming, slot, happened.clone()));
                }
            }
            Some(event) = events.recv() => handle(&mut rooms, &mut parties, event),
            (read, from) = receive(socket.as_ref(), &mut buf) => {
                if let (Some(to), Some(socket)) = (rooms.forward(Instant::now(), from, &buf[..read]), &socket) {
                    // A full buffer drops, as in a network.
                    let _ = socket.try_send_to(&buf[..read], to);
                }
            }
            _ = look.tick() => rooms.expire(Instant::now()),
            Some(_) = attending.join_next() => {}
        }
        while let Some((id, message)) = rooms.poll() {
            // There is room for all that rooms say to a party; one that does not read misses the rest.
            let _ = parties.get(&id).map(|party: &mpsc::Sender<_>| party.try_send(message));
        }
    }
}

/// A datagram to the relay.
async fn receive(socket: Option<&UdpSocket>, buf: &mut [u8]) -> (usize, SocketAddr) {
    let Some(socket) = socket else { return pending().await };
    loop {
        // Errors are ICMP's, of an end that has left.
        if let Ok(received) = socket.recv_from(buf).await {
            return received;
        }
    }
}

fn handle(rooms: &mut Rooms, parties: &mut HashMap<PartyId, mpsc::Sender<FromRendezvous>>, event: Event) {
    let now = Instant::now();
    match event {
        Event::Came(id, to_party) => {
            parties.insert(id, to_party);
        }
        // Without random numbers nobody may have a room.
        Event::Heard(id, at, message) => match random() {
            Ok(random) => rooms.hear(now, (id, at), message, random),
            Err(_) => rooms.left(now, id),
        },
        Event::Moved(id, to) => rooms.moved(id, to),
        Event::Left(id) => {
            parties.remove(&id);
            rooms.left(now, id);
        }
    }
}

/// One connection, up to its end.
async fn attend(id: PartyId, incoming: Incoming, mut slot: Slot, happened: mpsc::Sender<Event>) {
    let connect = async { incoming.accept()?.await };
    let Some(Ok(Ok(connection))) = slot.run(timeout(PATIENCE, connect)).await else { return };
    let outcome = slot.run(converse(id, &connection, &happened)).await;
    let _ = happened.send(Event::Left(id)).await;
    let reason = if outcome.is_none() { &b"other connections needed its slot"[..] } else { b"done" };
    connection.close(VarInt::from_u32(0), reason);
}

async fn converse(id: PartyId, connection: &Connection, happened: &mpsc::Sender<Event>) {
    let Ok(Ok((send, recv))) = timeout(PATIENCE, connection.accept_bi()).await else { return };
    let mut messages = listen_up_to(MESSAGE_BYTES_MAX, BufReader::new(recv));
    let Ok(Some(Ok(message))) = timeout(PATIENCE, messages.recv()).await else { return };
    let (outbox, mut writer) = outbox(send);
    let (to_party, mut outgoing) = mpsc::channel(OUTGOING_MAX);
    let _ = happened.send(Event::Came(id, to_party)).await;
    let (mut at, mut look) = (canonical(connection.remote_address()), interval(LOOK_EVERY));
    let _ = happened.send(Event::Heard(id, at, message)).await;
    loop {
        tokio::select! {
            heard = messages.recv() => {
                let Some(Ok(message)) = heard else { return };
                let _ = happened.send(Event::Heard(id, at, message)).await;
            }
            Some(message) = outgoing.recv() => {
                let _ = outbox.send(encode(&message)).await;
                if matches!(message, FromRendezvous::Ended(_)) {
                    break;
                }
            }
            _ = look.tick() => {
                let now = canonical(connection.remote_address());
                if std::mem::replace(&mut at, now) != now {
                    let _ = happened.send(Event::Moved(id, now)).await;
                }
            }
        }
    }
    drop(outbox);
    let _ = timeout(PATIENCE, finished(&mut writer)).await;
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use rc3_net::SendStream;

    use super::{
        super::{message::Why, visit::Visit},
        *,
    };
    use crate::{
        error::ErrorKind,
        transfer::{
            identity::{self, SERVER_NAME},
            meet::Settings,
            message::MessageError,
        },
    };

    /// A rendezvous without a relay, and an endpoint for clients of the same address.
    fn world() -> (Endpoint, Place, Endpoint) {
        let local = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let server = bind(Some(local)).unwrap();
        let place = Place { host: "127.0.0.1".to_owned(), port: server.local_addr().unwrap().port() };
        (server, place, Endpoint::client(local).unwrap())
    }

    async fn serving<T>(server: &Endpoint, work: impl Future<Output = T>) -> T {
        tokio::select! {
            done = work => done,
            () = run(server, Rooms::new(None), None) => unreachable!("the endpoint is open"),
        }
    }

    /// A connection that says `bytes`, and the last that it hears.
    async fn stranger(
        client: &Endpoint,
        place: &Place,
        bytes: &[u8],
    ) -> (SendStream, Result<FromRendezvous, MessageError>) {
        let config = rc3_net::ClientConfig::new(Arc::new(identity::client(None, ALPN).unwrap()));
        let at = place.to_string().parse().unwrap();
        let connection = client.connect_with(config, at, SERVER_NAME).unwrap().await.unwrap();
        let (mut send, recv) = connection.open_bi().await.unwrap();
        // What is too long is not taken.
        let _ = send.write_all(bytes).await;
        let mut heard = listen_up_to(MESSAGE_BYTES_MAX, recv);
        let mut last = heard.recv().await.unwrap();
        while let Some(next @ Ok(_)) = heard.recv().await {
            last = next;
        }
        (send, last)
    }

    #[tokio::test]
    async fn one_address_has_few_rooms_and_gets_them_back() {
        let (server, place, client) = world();
        let settings = Settings::default();
        let open = async || {
            let mut visit = Visit::begin(&client, &place, &FromParty::Open, &settings).await.unwrap();
            let heard = visit.hear().await;
            (visit, heard)
        };
        let work = async {
            let mut visits = Vec::new();
            for _ in 0..ROOMS_PER_SITE_MAX {
                let (visit, heard) = open().await;
                assert!(matches!(heard, Ok(FromRendezvous::Opened { .. })));
                visits.push(visit);
            }
            assert_eq!(open().await.1.unwrap_err().kind(), ErrorKind::Busy);
            visits.pop().unwrap().leave().await;
            while open().await.1.is_err() {}
        };
        serving(&server, work).await;
    }

    #[tokio::test]
    async fn garbage_ends_its_own_connection_only() {
        let (server, place, client) = world();
        let settings = Settings::default();
        let work = async {
            let mut host = Visit::begin(&client, &place, &FromParty::Open, &settings).await.unwrap();
            let FromRendezvous::Opened { number } = host.hear().await.unwrap() else { panic!("no room") };
            let frames = [
                vec![0; 3],
                vec![0xff; 100],
                [&[0, 0, 4, 1][..], &[0; MESSAGE_BYTES_MAX + 1]].concat(),
                encode(&FromParty::Say(vec![7; 10].into())),
                encode(&FromParty::Trusted),
            ];
            for frame in frames {
                let heard =
                    tokio::time::timeout(Duration::from_millis(200), stranger(&client, &place, &frame)).await;
                let is_away = |heard| matches!(heard, Err(_) | Ok(FromRendezvous::Ended(Why::Nonsense)));
                assert!(heard.is_err() || heard.is_ok_and(|(_, heard)| is_away(heard)));
            }
            let join = FromParty::Join(number);
            let mut guest = Visit::begin(&client, &place, &join, &settings).await.unwrap();
            for visit in [&mut host, &mut guest] {
                assert!(matches!(visit.hear().await.unwrap(), FromRendezvous::Joined { relay: None, .. }));
            }
        };
        serving(&server, work).await;
    }
}
