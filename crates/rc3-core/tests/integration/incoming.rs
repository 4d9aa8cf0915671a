//! More handshakes than a server accepts.

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use bytes::BytesMut;
use rc3_core::{
    ClientConfig, ConnectionError, ConnectionHandle, DatagramMeta, Endpoint, EndpointEvent, Event, Incoming,
    ServerConfig,
};
use rc3_sim::{Crypto, identity::SERVER_NAME};

/// A server that accepts on request, and clients with an address each. Datagrams take no time.
struct Town {
    now: Instant,
    server: Endpoint,
    clients: Vec<(SocketAddr, Endpoint)>,
    config: ClientConfig,
    waiting: Vec<Incoming>,
}

/// The result of a client's handshake.
#[derive(Debug, PartialEq, Eq)]
enum Fate {
    Connected,
    Refused,
}

fn server_address() -> SocketAddr {
    "192.0.2.1:4433".parse().unwrap()
}

impl Town {
    fn new(change: impl Fn(&mut ServerConfig)) -> Self {
        Self::secured_with(Crypto::Tls, change)
    }

    fn secured_with(crypto: Crypto, change: impl Fn(&mut ServerConfig)) -> Self {
        let (config, mut server) = crypto.identity(&["test"]);
        change(&mut server);
        Self {
            #[expect(clippy::disallowed_methods, reason = "tests need some instant to start from")]
            now: Instant::now(),
            server: Endpoint::new(Some(&server), Some([1; 32])).unwrap(),
            clients: Vec::new(),
            config,
            waiting: Vec::new(),
        }
    }

    /// One more client starts a handshake.
    fn come(&mut self) {
        let nth = self.clients.len() as u8;
        let mut endpoint = Endpoint::new(None, Some([nth.wrapping_add(2); 32])).unwrap();
        endpoint.connect(self.now, &self.config, server_address(), SERVER_NAME).unwrap();
        self.clients.push((([198, 51, 100, nth], 1000).into(), endpoint));
    }

    /// Delivers datagrams until there are none; returns what clients receive meanwhile.
    fn process_events(&mut self) -> Vec<(usize, Fate)> {
        let mut fates = Vec::new();
        let mut buf = Vec::new();
        loop {
            let mut moved = false;
            for (address, client) in &mut self.clients {
                while let Some(transmit) = client.poll_primary(self.now, 1, &mut buf) {
                    moved = true;
                    let meta = DatagramMeta {
                        remote: *address,
                        local_ip: None,
                        ecn: transmit.ecn,
                        leading_len: None,
                        arrived: None,
                    };
                    self.server.handle_datagram(self.now, meta, BytesMut::from(&buf[..]));
                    buf.clear();
                }
            }
            while let Some(event) = self.server.poll_event() {
                if let EndpointEvent::Incoming(incoming) = event {
                    self.waiting.push(incoming);
                }
            }
            while let Some(transmit) = self.server.poll_primary(self.now, 1, &mut buf) {
                moved = true;
                let meta = DatagramMeta {
                    remote: server_address(),
                    local_ip: None,
                    ecn: transmit.ecn,
                    leading_len: None,
                    arrived: None,
                };
                let found = self.clients.iter_mut().find(|(address, _)| *address == transmit.destination);
                found.unwrap().1.handle_datagram(self.now, meta, BytesMut::from(&buf[..]));
                buf.clear();
            }
            for (nth, (_, client)) in self.clients.iter_mut().enumerate() {
                while let Some(event) = client.poll_event() {
                    match event {
                        EndpointEvent::Connection(_, Event::Connected) => fates.push((nth, Fate::Connected)),
                        EndpointEvent::Connection(_, Event::Lost(ConnectionError::ConnectionClosed(_))) => {
                            fates.push((nth, Fate::Refused));
                        }
                        EndpointEvent::Connection(_, Event::Lost(error)) => panic!("client {nth}: {error}"),
                        _ => {}
                    }
                }
            }
            if !moved {
                return fates;
            }
        }
    }

    fn accept_all(&mut self) -> Vec<ConnectionHandle> {
        self.waiting.drain(..).map(|incoming| self.server.accept(self.now, incoming).unwrap()).collect()
    }
}

#[test]
fn few_handshakes_are_handed_out_as_they_come() {
    let mut town = Town::new(|_| ());
    (0..5).for_each(|_| town.come());
    assert_eq!(town.process_events(), []);
    assert!(town.waiting.iter().all(|incoming| !incoming.remote_address_validated()));
    assert_eq!((town.server.incoming_stats().waiting, town.server.incoming_stats().retried), (5, 0));
    town.accept_all();
    assert_eq!(town.process_events().len(), 5);
    assert_eq!(town.server.incoming_stats().waiting, 0);
}

#[test]
fn while_many_wait_new_ones_show_that_they_receive_and_then_wait_too() {
    for crypto in [Crypto::Tls, Crypto::None] {
        let mut town = Town::secured_with(crypto, |server| {
            server.retry_incoming_from(3);
        });
        (0..10).for_each(|_| town.come());
        assert_eq!(town.process_events(), []);
        let validated = town.waiting.iter().filter(|incoming| incoming.remote_address_validated()).count();
        assert_eq!((town.waiting.len(), validated), (10, 7));
        let stats = town.server.incoming_stats();
        assert_eq!((stats.waiting, stats.retried, stats.refused), (10, 7, 0));
        town.accept_all();
        assert_eq!(
            town.process_events().into_iter().filter(|(_, fate)| *fate == Fate::Connected).count(),
            10
        );
    }
}

#[test]
fn beyond_the_limit_the_peer_is_refused_and_hears_of_it() {
    let mut town = Town::new(|server| {
        server.retry_incoming_from(3).max_incoming(6);
    });
    (0..20).for_each(|_| town.come());
    let fates = town.process_events();
    assert_eq!(fates.len(), 14, "{fates:?}");
    assert!(fates.iter().all(|(_, fate)| *fate == Fate::Refused));
    let stats = town.server.incoming_stats();
    assert_eq!((stats.waiting, stats.refused), (6, 14));
    // There is room again.
    town.accept_all();
    town.come();
    let fates = town.process_events();
    assert!(fates.iter().all(|(_, fate)| *fate == Fate::Connected));
    assert_eq!((fates.len(), town.waiting.len()), (6, 1));
}

#[test]
fn made_up_addresses_take_no_more_places_than_are_free_for_the_asking() {
    let mut town = Town::new(|server| {
        server.retry_incoming_from(4);
    });
    let (mut buf, mut answers) = (Vec::new(), 0);
    for nth in 0..5000_u32 {
        // One honest first datagram each, whose answer goes to another address.
        let mut client = Endpoint::new(None, None).unwrap();
        client.connect(town.now, &town.config, server_address(), SERVER_NAME).unwrap();
        client.poll_primary(town.now, 1, &mut buf).unwrap();
        let [_, b, c, d] = nth.to_be_bytes();
        let meta = DatagramMeta {
            remote: ([b, c, d, 9], 9).into(),
            local_ip: None,
            ecn: 0,
            leading_len: None,
            arrived: None,
        };
        town.server.handle_datagram(town.now, meta, BytesMut::from(&buf[..]));
        buf.clear();
    }
    while let Some(transmit) = town.server.poll_primary(town.now, 1, &mut buf) {
        answers += 1;
        assert!(transmit.size < 400, "{} bytes for 1200", transmit.size);
        buf.clear();
    }
    let stats = town.server.incoming_stats();
    assert_eq!((stats.waiting, answers), (4, 1024));
    assert_eq!((stats.retried, stats.unanswered), (4996, 4996 - 1024));
    // An honest client is accepted all the same.
    town.come();
    town.process_events();
    assert_eq!(town.waiting.iter().filter(|incoming| incoming.remote_address_validated()).count(), 1);
}

#[test]
fn a_token_that_has_grown_old_is_not_taken() {
    // The token's age is real time: none remains here.
    let mut town = Town::new(|server| {
        server.retry_incoming_from(0).retry_token_lifetime(Duration::ZERO);
    });
    town.come();
    let fates = town.process_events();
    assert_eq!((fates, town.waiting.len()), (vec![(0, Fate::Refused)], 0));
}
