//! Sockets and runtimes that the application makes, and the settings of the endpoint on them.
use std::{
    future::Future,
    io::{self, IoSliceMut},
    net::{SocketAddr, UdpSocket},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicI32, AtomicUsize, Ordering::Relaxed},
    },
    task::{Context, Poll},
    time::{Duration, Instant},
};

use crate::common::{SERVER_NAME, configs, connect, pattern, receive, run, send};
use rc3_net::{
    AsyncTimer, AsyncUdpSocket, ConnectError, Connection, ConnectionError, ConnectionId,
    ConnectionIdGenerator, Endpoint, EndpointConfig, HashedConnectionIdGenerator,
    RandomConnectionIdGenerator, RlpMode, Runtime, TokioRuntime, TransportConfig, UdpPoller, default_runtime,
    udp,
};
use socket2::{Domain, Protocol, Socket, Type};

fn any() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

fn always(transport: &mut TransportConfig) {
    transport.rlp(RlpMode::Trust);
}

/// A server on this socket and a client that trusts it.
fn pair(config: EndpointConfig, socket: UdpSocket, runtime: Arc<dyn Runtime>) -> (Endpoint, Endpoint) {
    let (client_config, server_config) = configs(always);
    let server = Endpoint::new(config, Some(server_config), socket, runtime).unwrap();
    let mut client = Endpoint::client(any()).unwrap();
    client.set_default_client_config(client_config);
    (client, server)
}

/// Sends a megabyte each way.
async fn exchange(near: &Connection, far: &Connection) {
    for (from, to) in [(near, far), (far, near)] {
        let data = pattern(1 << 20, 7);
        let sending = async { send(from.open_uni().await.unwrap(), data.clone()).await };
        tokio::join!(sending, async { receive(to.accept_uni().await.unwrap(), &data).await });
    }
}

fn rlp_bytes(connection: &Connection) -> u64 {
    connection.stats().received.rlp_bytes.iter().sum()
}

fn udp_socket() -> Socket {
    Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP)).unwrap()
}

fn bound(socket: Socket) -> UdpSocket {
    socket.bind(&any().into()).unwrap();
    socket.into()
}

#[test]
fn a_socket_of_the_application_carries_both_loops() {
    run(async {
        let socket = UdpSocket::bind(any()).unwrap();
        let address = socket.local_addr().unwrap();
        let (client, server) = pair(EndpointConfig::default(), socket, default_runtime().unwrap());
        assert_eq!(server.local_addr().unwrap(), address);
        assert_eq!(server.capabilities().low.is_some(), cfg!(all(target_os = "linux", not(rc3_portable))));
        let (near, far) = connect(&client, &server).await;
        exchange(&near, &far).await;
        assert!(rlp_bytes(&near) > 0 && rlp_bytes(&far) > 0);
    });
}

#[test]
fn only_the_given_socket_is_used_if_a_second_one_could_do_harm() {
    run(async {
        let reusing = udp_socket();
        #[cfg(unix)]
        reusing.set_reuse_port(true).unwrap();
        let mut sockets = vec![bound(reusing)];
        #[cfg(target_os = "linux")]
        {
            let filtered = udp_socket();
            // Takes everything.
            let pass = socket2::SockFilter::new((libc::BPF_RET | libc::BPF_K) as u16, 0, 0, u32::MAX);
            filtered.attach_filter(&[pass]).unwrap();
            sockets.push(bound(filtered));
        }
        for socket in sockets {
            let (client, server) = pair(EndpointConfig::default(), socket, default_runtime().unwrap());
            assert!(server.capabilities().low.is_none());
            let (near, far) = connect(&client, &server).await;
            exchange(&near, &far).await;
            assert!(rlp_bytes(&near) > 0 && rlp_bytes(&far) > 0);
        }
    });
}

#[test]
fn a_connected_socket_stays_alone() {
    run(async {
        let (client_config, server_config) = configs(always);
        let server = Endpoint::server(server_config, any()).unwrap();
        let socket = UdpSocket::bind(any()).unwrap();
        socket.connect(server.local_addr().unwrap()).unwrap();
        let runtime = Arc::new(TokioRuntime);
        let mut client = Endpoint::new(EndpointConfig::default(), None, socket, runtime).unwrap();
        client.set_default_client_config(client_config);
        assert!(client.capabilities().low.is_none());
        let (near, far) = connect(&client, &server).await;
        exchange(&near, &far).await;
        assert!(rlp_bytes(&near) > 0 && rlp_bytes(&far) > 0);
    });
}

/// Steering a group that the application has made would take datagrams from its other members.
#[test]
#[cfg(target_os = "linux")]
fn other_sockets_on_the_port_keep_their_datagrams() {
    run(async {
        let first = udp_socket();
        first.set_reuse_port(true).unwrap();
        let first = bound(first);
        let second = udp_socket();
        second.set_reuse_port(true).unwrap();
        second.bind(&first.local_addr().unwrap().into()).unwrap();
        let second = UdpSocket::from(second);
        second.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
        let (_client, server) = pair(EndpointConfig::default(), first, default_runtime().unwrap());
        // By its ports, a share of many flows belongs to the second.
        for number in 0..64 {
            let sender = UdpSocket::bind(any()).unwrap();
            let first_byte = if number % 2 == 0 { 0x00 } else { 0x40 };
            sender.send_to(&[first_byte; 40], server.local_addr().unwrap()).unwrap();
        }
        let mut firsts = [0_u32; 2];
        let mut datagram = [0; 64];
        while second.recv_from(&mut datagram).is_ok() {
            firsts[usize::from(datagram[0] == 0x40)] += 1;
        }
        assert!(firsts.iter().all(|&count| count > 0), "datagrams of both kinds: {firsts:?}");
    });
}

#[test]
fn the_buffers_of_the_application_only_grow() {
    run(async {
        let large = udp_socket();
        large.set_recv_buffer_size(150_000).unwrap();
        let granted = large.recv_buffer_size().unwrap();
        let mut options = rc3_net::EndpointOptions::default();
        options.socket.recv_buffer = 20_000;
        let endpoint = Endpoint::adopt(options.clone(), None, bound(large)).unwrap();
        assert_eq!(endpoint.capabilities().primary.recv_buffer, granted);

        let small = udp_socket();
        small.set_recv_buffer_size(5_000).unwrap();
        let granted = small.recv_buffer_size().unwrap();
        let endpoint = Endpoint::adopt(options, None, bound(small)).unwrap();
        assert!(endpoint.capabilities().primary.recv_buffer > granted);
    });
}

// --- sockets and runtimes that the application implements

/// tokio under another name, with a clock of its own.
#[derive(Debug)]
struct Other {
    ahead: Duration,
    timers: AtomicUsize,
    tasks: AtomicUsize,
}

impl Other {
    fn new() -> Self {
        Self { ahead: Duration::from_secs(1_000), timers: AtomicUsize::new(0), tasks: AtomicUsize::new(0) }
    }
}

impl Runtime for Other {
    fn new_timer(&self, deadline: Instant) -> Pin<Box<dyn AsyncTimer>> {
        self.timers.fetch_add(1, Relaxed);
        let inner = TokioRuntime.new_timer(deadline - self.ahead);
        Box::pin(Timer { inner, ahead: self.ahead })
    }

    fn spawn(&self, future: Pin<Box<dyn Future<Output = ()> + Send>>) {
        self.tasks.fetch_add(1, Relaxed);
        tokio::spawn(future);
    }

    fn wrap_udp_socket(&self, socket: UdpSocket) -> io::Result<Arc<dyn AsyncUdpSocket>> {
        Ok(Arc::new(Wrapped::new(socket)))
    }

    fn now(&self) -> Instant {
        Instant::now() + self.ahead
    }
}

#[derive(Debug)]
struct Timer {
    inner: Pin<Box<dyn AsyncTimer>>,
    ahead: Duration,
}

impl AsyncTimer for Timer {
    fn reset(mut self: Pin<&mut Self>, deadline: Instant) {
        let deadline = deadline - self.ahead;
        self.inner.as_mut().reset(deadline);
    }

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.inner.as_mut().poll(cx)
    }
}

/// A socket around another; an absurd one also reports datagrams that cannot be.
#[derive(Debug)]
struct Wrapped {
    inner: Arc<dyn AsyncUdpSocket>,
    absurd: bool,
    failure: Arc<Failure>,
}

/// The next calls to receive fail.
#[derive(Debug, Default)]
struct Failure {
    calls: AtomicUsize,
    code: AtomicI32,
}

impl Failure {
    fn begin(&self, code: i32, calls: usize) {
        self.code.store(code, Relaxed);
        self.calls.store(calls, Relaxed);
    }

    fn take(&self) -> Option<io::Error> {
        let left = self.calls.load(Relaxed).checked_sub(1)?;
        self.calls.store(left, Relaxed);
        Some(io::Error::from_raw_os_error(self.code.load(Relaxed)))
    }
}

impl Wrapped {
    fn new(socket: UdpSocket) -> Self {
        let inner = TokioRuntime.wrap_udp_socket(socket).unwrap();
        Self { inner, absurd: false, failure: Arc::default() }
    }
}

impl AsyncUdpSocket for Wrapped {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        self.inner.clone().create_io_poller()
    }

    fn try_send(&self, transmit: &udp::Transmit<'_>) -> io::Result<()> {
        self.inner.try_send(transmit)
    }

    fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
        meta: &mut [udp::RecvMeta],
    ) -> Poll<io::Result<usize>> {
        if let Some(error) = self.failure.take() {
            return Poll::Ready(Err(error));
        }
        if !self.absurd {
            return self.inner.poll_recv(cx, bufs, meta);
        }
        let half = meta.len() / 2;
        let (first, rest) = meta.split_at_mut(half);
        self.inner.poll_recv(cx, &mut bufs[..half], first).map_ok(|count| {
            rest.copy_within(.., 0);
            // Longer than its buffer, without a stride, empty, and more of them than there are places.
            if count == half {
                for (number, meta) in rest.iter_mut().enumerate() {
                    meta.addr = "127.0.0.1:9".parse().unwrap();
                    (meta.len, meta.stride) = [(usize::MAX, 0), (7, usize::MAX), (0, 0)][number % 3];
                }
                return usize::MAX;
            }
            count
        })
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.inner.local_addr()
    }

    fn max_transmit_segments(&self) -> usize {
        self.inner.max_transmit_segments()
    }

    fn max_receive_segments(&self) -> usize {
        self.inner.max_receive_segments()
    }

    fn may_fragment(&self) -> bool {
        self.inner.may_fragment()
    }
}

#[test]
fn another_runtime_gives_socket_task_timer_and_clock() {
    run(async {
        let runtime = Arc::new(Other::new());
        let socket = UdpSocket::bind(any()).unwrap();
        let (client, server) = pair(EndpointConfig::default(), socket, runtime.clone());
        assert!(server.capabilities().low.is_none() && !server.capabilities().primary.dscp);
        let (near, far) = connect(&client, &server).await;
        exchange(&near, &far).await;
        assert!(rlp_bytes(&near) > 0 && rlp_bytes(&far) > 0);
        assert!(server.stats().primary.received_datagrams > 0);
        assert_eq!((runtime.tasks.load(Relaxed), runtime.timers.load(Relaxed)), (1, 1));
        // On a clock of two speeds or origins, round trips would be nonsense.
        assert!(far.rtt() < Duration::from_secs(10), "{:?}", far.rtt());
    });
}

#[test]
fn an_endpoint_moves_to_a_socket_that_the_application_implements() {
    run(async {
        let (client_config, server_config) = configs(always);
        let server = Endpoint::server(server_config, any()).unwrap();
        let abstracted =
            || Arc::new(Wrapped { absurd: true, ..Wrapped::new(UdpSocket::bind(any()).unwrap()) });
        let (first, second) = (abstracted(), abstracted());
        let address = second.local_addr().unwrap();
        let runtime = default_runtime().unwrap();
        let config = EndpointConfig::default();
        let mut client = Endpoint::new_with_abstract_socket(config, None, first, runtime).unwrap();
        client.set_default_client_config(client_config);
        let (near, far) = connect(&client, &server).await;
        exchange(&near, &far).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
        client.rebind_abstract(second).unwrap();
        assert_eq!(client.local_addr().unwrap(), address);
        exchange(&near, &far).await;
        assert_eq!(far.remote_address(), address);
        // And to one of the system.
        tokio::time::sleep(Duration::from_millis(100)).await;
        client.rebind(UdpSocket::bind(any()).unwrap()).unwrap();
        exchange(&near, &far).await;
        assert_eq!(client.capabilities().low.is_some(), cfg!(all(target_os = "linux", not(rc3_portable))));
    });
}

/// A connection from a client on a socket that may fail.
#[cfg(target_os = "linux")]
async fn failing() -> (Endpoint, Connection, Endpoint, Connection, Arc<Failure>) {
    let (client_config, server_config) = configs(always);
    let server = Endpoint::server(server_config, any()).unwrap();
    let socket = Arc::new(Wrapped::new(UdpSocket::bind(any()).unwrap()));
    let (failure, config) = (socket.failure.clone(), EndpointConfig::default());
    let runtime = default_runtime().unwrap();
    let mut client = Endpoint::new_with_abstract_socket(config, None, socket, runtime).unwrap();
    client.set_default_client_config(client_config);
    let (near, far) = connect(&client, &server).await;
    (client, near, server, far, failure)
}

#[test]
#[cfg(target_os = "linux")]
fn errors_that_pass_cost_no_connection() {
    run(async {
        let (client, near, _server, far, failure) = failing().await;
        let codes = [libc::ENOMEM, libc::ENETDOWN, libc::EPIPE, libc::EIO, libc::EINVAL];
        for code in codes {
            failure.begin(code, 5);
            exchange(&near, &far).await;
        }
        assert_eq!(client.stats().primary.recv_errors, 5 * codes.len() as u64);
        // Answers to datagrams sent earlier, as anyone on the path can forge them: no reason to wait.
        failure.begin(libc::ECONNREFUSED, 1000);
        exchange(&near, &far).await;
    });
}

#[test]
#[cfg(target_os = "linux")]
fn an_endpoint_whose_socket_only_fails_moves_to_another() {
    run(async {
        let (client, near, _server, far, failure) = failing().await;
        failure.begin(libc::ENETDOWN, usize::MAX);
        while client.stats().primary.recv_errors < 5 {
            // Its packets have answers, which cannot be received.
            near.send_datagram("x".into()).unwrap();
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        client.rebind(UdpSocket::bind(any()).unwrap()).unwrap();
        exchange(&near, &far).await;
    });
}

#[test]
#[cfg(target_os = "linux")]
fn an_endpoint_without_a_usable_socket_says_so() {
    run(async {
        let (client, near, server, far, failure) = failing().await;
        failure.begin(libc::EBADF, usize::MAX);
        far.send_datagram("x".into()).unwrap();
        let closed = near.closed().await.to_string();
        assert!(closed.contains("a socket is unusable: Bad file descriptor"), "{closed}");
        let rebound = [
            client.rebind(UdpSocket::bind(any()).unwrap()),
            client.rebind_to(any()),
            client.rebind_abstract(Arc::new(Wrapped::new(UdpSocket::bind(any()).unwrap()))),
        ];
        for result in rebound {
            let error = result.expect_err("nothing would read the socket");
            assert_eq!(error.kind(), io::ErrorKind::NotConnected);
            assert!(error.to_string().contains("Bad file descriptor"), "{error}");
        }
        let again = client.connect(server.local_addr().unwrap(), SERVER_NAME);
        assert!(matches!(again, Err(ConnectError::EndpointStopping)));
        assert!(client.accept().await.is_none());
        client.wait_idle().await;
    });
}

// --- the endpoint's settings

#[test]
fn version_negotiation_lists_what_the_server_accepts() {
    run(async {
        const DRAFT_29: u32 = 0xff00_001d;
        let listed = |config: EndpointConfig| {
            let socket = UdpSocket::bind(any()).unwrap();
            let (_, server) = pair(config, socket, default_runtime().unwrap());
            let prober = UdpSocket::bind(any()).unwrap();
            prober.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
            // A long header with a version nobody has, and two connection ids.
            let mut initial = vec![0xc0, 0x5a, 0x5a, 0x5a, 0x5a, 8];
            initial.extend([1; 8]);
            initial.push(8);
            initial.extend([2; 8]);
            initial.resize(1200, 0);
            prober.send_to(&initial, server.local_addr().unwrap()).unwrap();
            async move {
                tokio::task::spawn_blocking(move || {
                    let mut answer = [0; 1500];
                    let len = prober.recv(&mut answer).unwrap();
                    drop(server);
                    let versions = answer[23..len].chunks_exact(4);
                    versions
                        .map(|version| u32::from_be_bytes(version.try_into().unwrap()))
                        .collect::<Vec<_>>()
                })
                .await
                .unwrap()
            }
        };
        // The first is reserved, so that clients must ignore unknown ones (RFC 9000 §6.3).
        let reserved = |version: u32| version & 0x0f0f_0f0f == 0x0a0a_0a0a;
        let versions = listed(EndpointConfig::default()).await;
        assert!(matches!(versions[..], [grease, 1] if reserved(grease)), "{versions:x?}");
        let mut config = EndpointConfig::default();
        // Version 2 is not implemented.
        config.supported_versions(vec![0x6b33_43cf, DRAFT_29, 1]);
        let versions = listed(config).await;
        assert!(matches!(versions[..], [_, DRAFT_29, 1]), "{versions:x?}");
        let mut config = EndpointConfig::default();
        config.supported_versions(vec![0x6b33_43cf]);
        let versions = listed(config).await;
        assert!(matches!(versions[..], [_, 1]), "{versions:x?}");
    });
}

#[test]
fn a_listed_draft_connects_and_another_version_does_not() {
    run(async {
        const DRAFT_29: u32 = 0xff00_001d;
        let mut drafts = EndpointConfig::default();
        drafts.supported_versions(vec![1, DRAFT_29]);
        let (mut client_config, server_config) = configs(always);
        client_config.version(DRAFT_29);
        let endpoint = |config: &EndpointConfig, server| {
            let socket = UdpSocket::bind(any()).unwrap();
            Endpoint::new(config.clone(), server, socket, default_runtime().unwrap()).unwrap()
        };
        let mut client = endpoint(&drafts, None);
        client.set_default_client_config(client_config);
        let old = endpoint(&drafts, Some(server_config.clone()));
        let (near, far) = connect(&client, &old).await;
        exchange(&near, &far).await;
        assert!(near.is_rc3());

        let new = endpoint(&EndpointConfig::default(), Some(server_config));
        let refused = client.connect(new.local_addr().unwrap(), SERVER_NAME).unwrap().await;
        assert_eq!(refused.unwrap_err(), ConnectionError::VersionMismatch);
    });
}

/// An application's generator: a prefix for a load balancer, or a faulty one.
struct Ids {
    made: Arc<AtomicUsize>,
    announced: usize,
    make: fn(usize) -> ConnectionId,
}

impl ConnectionIdGenerator for Ids {
    fn generate_cid(&mut self) -> ConnectionId {
        (self.make)(self.made.fetch_add(1, Relaxed))
    }

    fn cid_len(&self) -> usize {
        self.announced
    }

    fn cid_lifetime(&self) -> Option<Duration> {
        None
    }
}

#[test]
fn ids_of_the_application_are_used_and_faulty_ones_replaced() {
    run(async {
        let right = |_| {
            let random = RandomConnectionIdGenerator::new(9).generate_cid();
            ConnectionId::new(&[&[1, 2, 3], &random[..]].concat())
        };
        let constant = |_| ConnectionId::new(&[7; 12]);
        let alternating = |number: usize| ConnectionId::new(&[(number % 2) as u8; 12]);
        let short = |_| ConnectionId::new(&[7; 4]);
        for make in [right, constant, alternating, short] as [fn(usize) -> ConnectionId; 4] {
            let made = Arc::new(AtomicUsize::new(0));
            let counted = made.clone();
            let mut config = EndpointConfig::default();
            config.cid_generator(move || Box::new(Ids { made: counted.clone(), announced: 12, make }));
            let socket = UdpSocket::bind(any()).unwrap();
            let (client, server) = pair(config, socket, default_runtime().unwrap());
            // Several connections need more ids than the faulty generators have.
            let mut connections = Vec::new();
            for _ in 0..3 {
                connections.push(connect(&client, &server).await);
            }
            for (near, far) in &connections {
                exchange(near, far).await;
                assert!(near.is_rc3() && rlp_bytes(far) > 0);
            }
            // Eight for each connection; a faulty generator is asked a bounded number of times.
            let made = made.load(Relaxed);
            assert!((3 * 2..3 * 9 * 64).contains(&made), "{made}");
        }
    });
}

#[test]
fn short_ids_are_refused() {
    run(async {
        for len in [0, 4, 7, 21] {
            let mut config = EndpointConfig::default();
            config.cid_generator(move || {
                let make: fn(usize) -> ConnectionId = |_| ConnectionId::new(&[]);
                Box::new(Ids { made: Arc::default(), announced: len, make })
            });
            let socket = UdpSocket::bind(any()).unwrap();
            let error = Endpoint::new(config, None, socket, default_runtime().unwrap()).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{len}");
        }
        let (mut client_config, server_config) = configs(always);
        let server = Endpoint::server(server_config, any()).unwrap();
        let client = Endpoint::client(any()).unwrap();
        let address = server.local_addr().unwrap();
        client_config.initial_dst_cid_provider(Arc::new(|| ConnectionId::new(&[1; 7])));
        let refused = client.connect_with(client_config.clone(), address, SERVER_NAME).unwrap_err();
        assert_eq!(refused, ConnectError::UnsupportedVersion);
        client_config.initial_dst_cid_provider(Arc::new(|| ConnectionId::new(&[1; 8])));
        let connecting = client.connect_with(client_config, address, SERVER_NAME).unwrap();
        let incoming = server.accept().await.unwrap();
        assert_eq!(incoming.orig_dst_cid(), ConnectionId::new(&[1; 8]));
        let (near, far) = tokio::join!(connecting, incoming);
        exchange(&near.unwrap(), &far.unwrap()).await;
    });
}

/// HMAC-SHA256 by rustls' provider would do; a test needs no secret.
struct ResetKey;

impl rc3_net::crypto::HmacKey for ResetKey {
    fn sign(&self, data: &[u8], signature_out: &mut [u8]) {
        for (index, out) in signature_out.iter_mut().enumerate() {
            *out = data.iter().fold(index as u8, |sum, &byte| sum.wrapping_mul(31).wrapping_add(byte));
        }
    }

    fn signature_len(&self) -> usize {
        32
    }

    fn verify(&self, _: &[u8], _: &[u8]) -> Result<(), rc3_net::crypto::CryptoError> {
        Err(rc3_net::crypto::CryptoError)
    }
}

#[test]
fn a_restarted_server_resets_old_connections_with_the_same_keys() {
    run(async {
        let config = || {
            let mut config = EndpointConfig::new(Arc::new(ResetKey));
            config
                .cid_generator(|| Box::new(HashedConnectionIdGenerator::from_key(5)))
                .min_reset_interval(Duration::ZERO)
                .grease_quic_bit(false);
            config
        };
        let socket = UdpSocket::bind(any()).unwrap();
        let address = socket.local_addr().unwrap();
        let (client, server) = pair(config(), socket, default_runtime().unwrap());
        let (near, far) = connect(&client, &server).await;
        exchange(&near, &far).await;
        // The old server is elsewhere, so it cannot say goodbye.
        server.rebind_to(any()).unwrap();
        let socket = loop {
            match UdpSocket::bind(address) {
                Ok(socket) => break socket,
                Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        };
        let restarted = Endpoint::new(config(), None, socket, default_runtime().unwrap()).unwrap();
        let sending = async {
            // An acknowledgment that was due may already have brought the reset.
            if let Ok(mut stream) = near.open_uni().await {
                let _ = stream.write_all(&[1; 5_000]).await;
            }
            near.closed().await
        };
        assert_eq!(sending.await, ConnectionError::Reset);
        drop((far, restarted));
    });
}
