//! Servers behind load balancers ([`EndpointConfig`]): three backends, one small balancer by addresses and one by connection
//! ids, clients that change their address, and a backend that drains and leaves.
use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::Duration,
};

use crate::common::{ResetKey, SERVER_NAME, code, configs, pattern, run};
use rc3_net::{
    ClientConfig, Connection, ConnectionError, ConnectionId, ConnectionIdGenerator, Endpoint, EndpointConfig,
    EndpointOptions, RandomConnectionIdGenerator,
};
use tokio::{net::UdpSocket, task::AbortHandle, time::sleep};

const BACKENDS: usize = 3;

/// Bytes of a request and of its answer: beyond the primary's first window, so that RLP sends, too.
const BYTES: usize = 60_000;

/// The first byte of ids that a balancer can route: configuration 0 and no length, as in
/// draft-ietf-quic-load-balancers. The next byte is the number of the backend, the rest a nonce.
const ROUTABLE: u8 = 0x1f;

/// Ids with the number of a backend.
struct Numbered {
    backend: u8,
    nonce: RandomConnectionIdGenerator,
}

impl ConnectionIdGenerator for Numbered {
    fn generate_cid(&mut self) -> ConnectionId {
        let nonce = self.nonce.generate_cid();
        ConnectionId::new(&[&[ROUTABLE, self.backend][..], &nonce[..]].concat())
    }

    fn cid_len(&self) -> usize {
        8
    }

    fn cid_lifetime(&self) -> Option<Duration> {
        None
    }
}

/// How a balancer chooses among backends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum By {
    /// By the client's address.
    Address,
    /// By the number in the connection id, if it has one.
    Id,
}

/// The state of a balancer that its tasks and the test use.
struct Table {
    by: By,
    backends: Vec<SocketAddr>,
    /// Backends that get no new clients.
    draining: Vec<bool>,
    /// Clients by address, where ids do not decide.
    clients: HashMap<SocketAddr, usize>,
    /// One socket for each client and backend, so that the backend distinguishes clients.
    links: HashMap<(SocketAddr, usize), Arc<UdpSocket>>,
    /// RLP datagrams routed by their id, and by their address.
    rlp_by_id: u64,
    rlp_by_address: u64,
}

impl Table {
    fn choose(&mut self, from: SocketAddr, datagram: &[u8]) -> usize {
        let rlp = datagram[0] & 0xc0 == 0;
        if self.by == By::Id
            && let Some(backend) = backend_of(datagram).filter(|&backend| backend < self.backends.len())
        {
            self.rlp_by_id += u64::from(rlp);
            return backend;
        }
        self.rlp_by_address += u64::from(rlp);
        let open: Vec<_> = (0..self.backends.len()).filter(|&backend| !self.draining[backend]).collect();
        let next = open[self.clients.len() % open.len()];
        *self.clients.entry(from).or_insert(next)
    }
}

/// The backend's number in the id of a datagram of either loop.
fn backend_of(datagram: &[u8]) -> Option<usize> {
    let id = match datagram[0] & 0xc0 {
        // RLP, and QUIC's short header: the id follows the first byte.
        0x00 | 0x40 => datagram.get(1..9)?,
        _ => datagram.get(6..6 + usize::from(*datagram.get(5)?))?,
    };
    (id.len() == 8 && id[0] == ROUTABLE).then(|| usize::from(id[1]))
}

/// A balancer, and the tasks that pass datagrams.
struct Balancer {
    address: SocketAddr,
    table: Arc<Mutex<Table>>,
    task: AbortHandle,
}

impl Balancer {
    async fn start(by: By, backends: &[Endpoint]) -> Self {
        let front = Arc::new(UdpSocket::bind("127.0.0.1:0").await.unwrap());
        let address = front.local_addr().unwrap();
        let table = Arc::new(Mutex::new(Table {
            by,
            backends: backends.iter().map(|backend| backend.local_addr().unwrap()).collect(),
            draining: vec![false; backends.len()],
            clients: HashMap::new(),
            links: HashMap::new(),
            rlp_by_id: 0,
            rlp_by_address: 0,
        }));
        let task = tokio::spawn(pass_up(front, table.clone())).abort_handle();
        Self { address, table, task }
    }

    fn drain(&self, backend: usize) {
        let mut table = self.table.lock().unwrap();
        table.draining[backend] = true;
    }

    /// RLP datagrams routed by id, and by address.
    fn rlp(&self) -> (u64, u64) {
        let table = self.table.lock().unwrap();
        (table.rlp_by_id, table.rlp_by_address)
    }
}

impl Drop for Balancer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn pass_up(front: Arc<UdpSocket>, table: Arc<Mutex<Table>>) {
    let mut datagram = vec![0; 1 << 16];
    loop {
        let Ok((len, from)) = front.recv_from(&mut datagram).await else { continue };
        if len == 0 {
            continue;
        }
        let (backend, to, link) = {
            let mut table = table.lock().unwrap();
            let backend = table.choose(from, &datagram[..len]);
            (backend, table.backends[backend], table.links.get(&(from, backend)).cloned())
        };
        let link = match link {
            Some(link) => link,
            None => {
                let link = Arc::new(UdpSocket::bind("127.0.0.1:0").await.unwrap());
                link.connect(to).await.unwrap();
                tokio::spawn(pass_down(link.clone(), front.clone(), from));
                table.lock().unwrap().links.insert((from, backend), link.clone());
                link
            }
        };
        let _ = link.send(&datagram[..len]).await;
    }
}

async fn pass_down(link: Arc<UdpSocket>, front: Arc<UdpSocket>, client: SocketAddr) {
    let mut datagram = vec![0; 1 << 16];
    loop {
        // A backend that has left refuses.
        if let Ok(len) = link.recv(&mut datagram).await {
            let _ = front.send_to(&datagram[..len], client).await;
        } else {
            sleep(Duration::from_millis(10)).await;
        }
    }
}

/// Three backends with one certificate, one token key and one key of stateless resets.
fn backends(workers: usize) -> (ClientConfig, Vec<Endpoint>) {
    let (client_config, server_config) = configs(|_| ());
    let reset_key = Arc::new(ResetKey);
    let backends = (0..BACKENDS).map(|backend| {
        let mut protocol = EndpointConfig::new(reset_key.clone());
        protocol.cid_generator(move || {
            Box::new(Numbered { backend: backend as u8, nonce: RandomConnectionIdGenerator::new(6) })
        });
        let options = EndpointOptions { protocol, workers, ..EndpointOptions::default() };
        let endpoint =
            Endpoint::bind(options, Some(server_config.clone()), "127.0.0.1:0".parse().unwrap()).unwrap();
        tokio::spawn(serve(endpoint.clone()));
        endpoint
    });
    (client_config, backends.collect())
}

/// Answers every request with itself.
async fn serve(server: Endpoint) {
    while let Some(incoming) = server.accept().await {
        tokio::spawn(async move {
            let Ok(connection) = incoming.await else { return };
            while let Ok((mut send, mut recv)) = connection.accept_bi().await {
                let Ok(request) = recv.read_to_end(BYTES).await else { return };
                if send.write_all(&request).await.is_err() || send.finish().is_err() {
                    return;
                }
            }
        });
    }
}

async fn exchange(connection: &Connection, seed: u64) -> Result<(), ConnectionError> {
    let data = pattern(BYTES, seed);
    let (mut send, mut recv) = connection.open_bi().await?;
    let lost = async { Err(connection.closed().await) };
    let answer = async {
        send.write_all(&data).await.ok()?;
        send.finish().ok()?;
        recv.read_to_end(BYTES).await.ok()
    };
    tokio::select! {
        Some(got) = answer => {
            assert!(got == data);
            Ok(())
        }
        lost = lost => lost,
    }
}

fn client(config: &ClientConfig) -> Endpoint {
    let mut client = Endpoint::client("127.0.0.1:0".parse().unwrap()).unwrap();
    client.set_default_client_config(config.clone());
    client
}

async fn connect(client: &Endpoint, balancer: &Balancer) -> Connection {
    client.connect(balancer.address, SERVER_NAME).unwrap().await.unwrap()
}

#[test]
fn by_addresses_both_loops_reach_one_backend_until_the_address_changes() {
    run(async {
        let (config, backends) = backends(1);
        let balancer = Balancer::start(By::Address, &backends).await;
        let clients: Vec<_> = (0..6).map(|_| client(&config)).collect();
        let mut connections = Vec::new();
        for client in &clients {
            let connection = connect(client, &balancer).await;
            exchange(&connection, 1).await.unwrap();
            connections.push(connection);
        }
        for backend in &backends {
            let stats = backend.stats();
            assert_eq!(stats.accepted_handshakes, 2);
            assert!(stats.low.is_none_or(|low| low.received_datagrams > 0), "RLP of its clients reached it");
        }
        // A backend that gets no new clients keeps those that it has.
        balancer.drain(0);
        for _ in 0..4 {
            exchange(&connect(&client(&config), &balancer).await, 2).await.unwrap();
        }
        assert_eq!(backends[0].stats().accepted_handshakes, 2);
        for connection in &connections {
            exchange(connection, 3).await.unwrap();
        }
        // From another address, a client may reach a backend that does not know it. The key of stateless resets that
        // they have in common ends the connection at once, and the client connects again.
        let mut reset = 0;
        for (client, connection) in clients.iter().zip(&connections) {
            client.rebind_to("127.0.0.1:0".parse().unwrap()).unwrap();
            match exchange(connection, 4).await {
                Ok(()) => {}
                Err(error) => {
                    assert_eq!(error, ConnectionError::Reset);
                    reset += 1;
                    exchange(&connect(client, &balancer).await, 5).await.unwrap();
                }
            }
        }
        assert!(reset > 0, "the addresses of two backends' clients are distributed anew");
    });
}

/// Clients change their address again and again, and a backend drains and leaves.
async fn by_ids(workers: usize) {
    let (config, backends) = backends(workers);
    let balancer = Balancer::start(By::Id, &backends).await;
    let clients: Vec<_> = (0..6).map(|_| client(&config)).collect();
    let mut connections = Vec::new();
    for client in &clients {
        let connection = connect(client, &balancer).await;
        exchange(&connection, 1).await.unwrap();
        connections.push(connection);
    }
    // The ids are there, so RLP needs the addresses no more.
    let (by_id, by_address) = balancer.rlp();
    for round in 0..5 {
        for (client, connection) in clients.iter().zip(&connections) {
            client.rebind_to("127.0.0.1:0".parse().unwrap()).unwrap();
            exchange(connection, round).await.unwrap();
            exchange(connection, round + 10).await.unwrap();
        }
    }
    let (later_by_id, later_by_address) = balancer.rlp();
    assert!(later_by_id > by_id + 30, "{by_id} and {later_by_id} RLP datagrams show little");
    assert_eq!(later_by_address, by_address, "RLP datagrams with ids that the balancer cannot route");
    let accepted: Vec<_> = backends.iter().map(|backend| backend.stats().accepted_handshakes).collect();
    assert_eq!(accepted, [2, 2, 2], "no client had to connect again");

    // Backend 0 drains: its clients stay, from new addresses, too; new ones go elsewhere.
    balancer.drain(0);
    for _ in 0..4 {
        let client = client(&config);
        exchange(&connect(&client, &balancer).await, 2).await.unwrap();
        client.close(code(0), b"");
        client.wait_idle().await;
    }
    assert_eq!(backends[0].stats().accepted_handshakes, 2);
    for (client, connection) in clients.iter().zip(&connections) {
        client.rebind_to("127.0.0.1:0".parse().unwrap()).unwrap();
        exchange(connection, 20).await.unwrap();
    }
    // Its last connections end, and it leaves. The others notice nothing.
    let mut left = 0;
    for connection in &connections {
        let before = backends[0].open_connections();
        connection.close(code(0), b"");
        for _ in 0..500 {
            if backends[0].open_connections() < before {
                left += 1;
                break;
            }
            sleep(Duration::from_millis(1)).await;
        }
        if left == 2 {
            break;
        }
    }
    assert_eq!(left, 2);
    backends[0].close(code(0), b"leaves");
    backends[0].wait_idle().await;
    for connection in connections.iter().filter(|connection| connection.close_reason().is_none()) {
        exchange(connection, 30).await.unwrap();
    }
    exchange(&connect(&client(&config), &balancer).await, 31).await.unwrap();
}

#[test]
fn by_ids_both_loops_follow_a_client_that_changes_its_address() {
    run(by_ids(1));
}

#[cfg(all(target_os = "linux", not(rc3_portable)))]
#[test]
fn by_ids_both_loops_follow_a_client_to_backends_with_several_workers() {
    run(by_ids(2));
}
