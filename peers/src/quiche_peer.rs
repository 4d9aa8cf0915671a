//! quiche, over plain UDP sockets: one thread, packets sent at the times that its pacer names.

use std::{
    collections::HashMap,
    fs, io,
    net::{Ipv4Addr, SocketAddr, UdpSocket},
    path::PathBuf,
    process,
    time::{Duration, Instant},
};

use data_encoding::HEXLOWER;
use quiche::{Config, Connection, ConnectionId, Header};
use ring::rand::{SecureRandom, SystemRandom};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::{BLOCK, HOST, Result, clock};

/// As in quiche's own examples, whose flow control windows grow by themselves.
const DATAGRAM: usize = 1350;
const MAX_DATA: u64 = 10_000_000;
const MAX_STREAM_DATA: u64 = 1_000_000;
const MAX_STREAMS: u64 = 100;
const IDLE: u64 = 30_000;

const PROTOCOLS: [&[u8]; 1] = [b"compare"];
/// The first bidirectional stream of a client.
const STREAM: u64 = 0;
/// Kernel buffers hold at least a flight.
const LONGEST: usize = 65_535;

/// A connection and what waits for its time.
struct Flow {
    connection: Connection,
    /// A packet that the pacer holds back, and until when.
    held: Option<(Instant, Vec<u8>)>,
    /// CPU seconds of the process when the connection came.
    before: f64,
    /// Nanoseconds when the last byte was there.
    last: u64,
}

fn config() -> Result<Config> {
    let mut config = Config::new(quiche::PROTOCOL_VERSION)?;
    config.set_application_protos(&PROTOCOLS)?;
    config.set_max_idle_timeout(IDLE);
    config.set_max_recv_udp_payload_size(DATAGRAM);
    config.set_max_send_udp_payload_size(DATAGRAM);
    config.set_initial_max_data(MAX_DATA);
    config.set_initial_max_stream_data_bidi_local(MAX_STREAM_DATA);
    config.set_initial_max_stream_data_bidi_remote(MAX_STREAM_DATA);
    config.set_initial_max_streams_bidi(MAX_STREAMS);
    Ok(config)
}

fn id() -> Result<ConnectionId<'static>> {
    let mut bytes = vec![0; quiche::MAX_CONN_ID_LEN];
    SystemRandom::new().fill(&mut bytes).map_err(|_| "no random numbers")?;
    Ok(ConnectionId::from_vec(bytes))
}

/// A file that quiche reads and nobody else needs.
struct Temporary(PathBuf);

impl Temporary {
    fn new(name: &str, text: &str) -> Result<Self> {
        let path = std::env::temp_dir().join(format!("rc3-peers-{}-{name}.pem", process::id()));
        fs::write(&path, text)?;
        Ok(Self(path))
    }

    fn path(&self) -> Result<&str> {
        Ok(self.0.to_str().ok_or("a temporary folder without a readable name")?)
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

impl Flow {
    fn new(connection: Connection) -> Self {
        Self { connection, held: None, before: clock::cpu(), last: clock::now() }
    }

    /// Sends what may be sent now.
    fn send(&mut self, socket: &UdpSocket) -> Result<()> {
        loop {
            if let Some((at, packet)) = self.held.take() {
                if at > Instant::now() {
                    self.held = Some((at, packet));
                    return Ok(());
                }
                match socket.send_to(&packet, self.peer()?) {
                    Ok(_) => {}
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        self.held = Some((at, packet));
                        return Ok(());
                    }
                    Err(error) => return Err(error.into()),
                }
            }
            let mut packet = vec![0; DATAGRAM];
            match self.connection.send(&mut packet) {
                Ok((len, info)) => {
                    packet.truncate(len);
                    self.held = Some((info.at, packet));
                }
                Err(quiche::Error::Done) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn peer(&self) -> Result<SocketAddr> {
        Ok(self.connection.path_stats().next().ok_or("a connection without a path")?.peer_addr)
    }

    /// When there is something to do without a datagram.
    fn timeout(&self) -> Option<Duration> {
        let held = self.held.as_ref().map(|(at, _)| at.saturating_duration_since(Instant::now()));
        [held, self.connection.timeout()].into_iter().flatten().min()
    }
}

/// Waits for a datagram or a time, and returns the datagram.
fn receive(socket: &UdpSocket, timeout: Option<Duration>, buffer: &mut [u8]) -> Result<Option<(usize, SocketAddr)>> {
    match socket.recv_from(buffer) {
        Ok(received) => return Ok(Some(received)),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
        Err(error) => return Err(error.into()),
    }
    let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
    poll(&mut [PollFd::new(socket, PollFlags::IN)], timeout.as_ref())?;
    Ok(None)
}

pub(crate) fn serve(address: SocketAddr) -> Result<()> {
    let certified = rcgen::generate_simple_self_signed([HOST.to_owned()])?;
    let mut config = config()?;
    {
        let certificate = Temporary::new("certificate", &certified.cert.pem())?;
        let key = Temporary::new("key", &certified.signing_key.serialize_pem())?;
        config.load_cert_chain_from_pem_file(certificate.path()?)?;
        config.load_priv_key_from_pem_file(key.path()?)?;
    }
    let socket = UdpSocket::bind(address)?;
    socket.set_nonblocking(true)?;
    println!("{}", HEXLOWER.encode(certified.cert.der()));
    let mut flows: HashMap<SocketAddr, Flow> = HashMap::new();
    let mut buffer = vec![0; LONGEST];
    let mut block = vec![0; BLOCK];
    loop {
        let timeout = flows.values().filter_map(Flow::timeout).min();
        match receive(&socket, timeout, &mut buffer)? {
            Some((len, from)) => {
                if !flows.contains_key(&from) {
                    // What is no connection of ours.
                    if Header::from_slice(&mut buffer[..len], quiche::MAX_CONN_ID_LEN).is_err() {
                        continue;
                    }
                    let connection = quiche::accept(&id()?, None, address, from, &mut config)?;
                    flows.insert(from, Flow::new(connection));
                }
                if let Some(flow) = flows.get_mut(&from) {
                    let info = quiche::RecvInfo { from, to: address };
                    // It is closed by itself, if the datagram is wrong.
                    let _ = flow.connection.recv(&mut buffer[..len], info);
                    read(flow, &mut block)?;
                }
            }
            None => flows.values_mut().for_each(|flow| {
                if flow.connection.timeout().is_some_and(|left| left.is_zero()) {
                    flow.connection.on_timeout();
                }
            }),
        }
        for flow in flows.values_mut() {
            flow.send(&socket)?;
        }
        flows.retain(|_, flow| !flow.connection.is_closed());
    }
}

/// Reads what has come, and answers at the end.
fn read(flow: &mut Flow, block: &mut [u8]) -> Result<()> {
    if !flow.connection.is_established() {
        flow.before = clock::cpu();
    }
    for stream in flow.connection.readable() {
        while let Ok((read, finished)) = flow.connection.stream_recv(stream, block) {
            if read > 0 {
                flow.last = clock::now();
            }
            if finished {
                let answer = format!("{} {}", flow.last, clock::cpu() - flow.before);
                flow.connection.stream_send(stream, answer.as_bytes(), true)?;
            }
        }
    }
    Ok(())
}

pub(crate) fn time(address: SocketAddr, bytes: u64, connections: u32) -> Result<()> {
    let mut config = config()?;
    config.verify_peer(false);
    for _ in 0..connections {
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
        // Fixes the local address, which a connection names.
        socket.connect(address)?;
        let local = socket.local_addr()?;
        let socket = {
            drop(socket);
            UdpSocket::bind(local)?
        };
        socket.set_nonblocking(true)?;
        let (begun, before) = (clock::now(), clock::cpu());
        let connection = quiche::connect(Some(HOST), &id()?, local, address, &mut config)?;
        let (opened, answer) = transfer(Flow::new(connection), &socket, local, bytes)?;
        clock::report(begun, opened, clock::cpu() - before, &answer)?;
    }
    Ok(())
}

/// Sends a stream; when the connection was open, and the answer.
fn transfer(mut flow: Flow, socket: &UdpSocket, local: SocketAddr, bytes: u64) -> Result<(u64, String)> {
    let (mut left, mut opened, mut answer) = (bytes, None, Vec::new());
    let (mut buffer, block) = (vec![0; LONGEST], vec![7; BLOCK]);
    loop {
        if flow.connection.is_established() {
            opened.get_or_insert_with(clock::now);
            while left > 0 {
                let part = left.min(BLOCK as u64);
                match flow.connection.stream_send(STREAM, &block[..part as usize], part == left) {
                    Ok(sent) if sent > 0 => left -= sent as u64,
                    Ok(_) | Err(quiche::Error::Done) => break,
                    Err(error) => return Err(error.into()),
                }
            }
        }
        flow.send(socket)?;
        match receive(socket, flow.timeout(), &mut buffer)? {
            Some((len, from)) => {
                flow.connection.recv(&mut buffer[..len], quiche::RecvInfo { from, to: local })?;
            }
            None if flow.connection.timeout().is_some_and(|left| left.is_zero()) => flow.connection.on_timeout(),
            None => {}
        }
        if flow.connection.is_closed() {
            return Err("the connection was closed before the answer".into());
        }
        let mut part = [0; 256];
        while let Ok((read, finished)) = flow.connection.stream_recv(STREAM, &mut part) {
            answer.extend_from_slice(&part[..read]);
            if finished {
                let opened = opened.ok_or("an answer before the connection was open")?;
                let _ = flow.connection.close(true, 0, b"done");
                flow.send(socket)?;
                return Ok((opened, String::from_utf8(answer)?));
            }
        }
    }
}
