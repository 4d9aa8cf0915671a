//! A handshake with the flights of TLS 1.3 (RFC 8446 §2) and only the content that QUIC and rc3 need.
//!
//! ```text
//! client   ClientHello   ->            Initial
//!                        <-   ServerHello   Initial      both: handshake keys
//!                        <-   ServerFlight  Handshake    server: 1-RTT keys
//! client   ClientFinished ->           Handshake         client: 1-RTT keys; server: complete
//!                        <-   SessionTickets 1-RTT
//! ```

use std::{any::Any, sync::Arc};

use quinn_proto::{
    ConnectionId, Side, TransportError, TransportErrorCode,
    crypto::{self, ExportKeyingMaterialError, HeaderKey, KeyPair, Keys, PacketKey, rustls::HandshakeData},
    transport_parameters::TransportParameters,
};

use rc3_core::internals::security::{absorb, mix};

use super::{
    CryptoSettings, keys,
    message::{
        self, CLIENT_FINISHED, CLIENT_HELLO, CryptoMessage, SERVER_FLIGHT, SERVER_HELLO, SESSION_TICKETS,
    },
    read_params, write_params,
};
use crate::insecure::tag::Tagger;

/// Most bytes of an unfinished message: one has only the parameters and the names.
const RECEIVED_MAX: usize = 1 << 16;

/// TLS alerts (RFC 8446 §6).
const UNEXPECTED_MESSAGE: u8 = 10;
const DECODE_ERROR: u8 = 50;
const NO_APPLICATION_PROTOCOL: u8 = 120;

const HANDSHAKE: u64 = 4;
const ONE_RTT: u64 = 5;
const EXPORTER: u64 = 6;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HandshakeStep {
    /// The client must send its ClientHello, the server waits for it.
    Begin,
    /// The client waits for the ServerHello.
    HelloSent,
    /// ClientHello or ServerHello has been read: handshake keys are due.
    HelloRead,
    /// Both have handshake keys: the server's flight is due.
    HandshakeKeys,
    /// The server waits for Finished, the client must send it.
    Flight,
    /// The handshake is complete for the server, which has tickets to send.
    Tickets,
    Complete,
}

pub(super) struct CryptoSession {
    side: Side,
    settings: Arc<CryptoSettings>,
    server_name: String,
    params: Vec<u8>,
    step: HandshakeStep,
    random: [u8; 8],
    /// Known once both hellos were exchanged.
    secret: Option<Tagger>,
    /// What the newest 1-RTT keys come from.
    generation: Option<Tagger>,
    received: Vec<u8>,
    peer_params: Option<TransportParameters>,
    /// Once agreed.
    protocol: Option<Vec<u8>>,
    peer_heard: bool,
}

impl CryptoSession {
    /// A server learns its name from its client.
    pub(super) fn new(
        side: Side,
        settings: Arc<CryptoSettings>,
        server_name: &str,
        params: &TransportParameters,
    ) -> Self {
        let params = write_params(params);
        Self {
            side,
            settings,
            server_name: server_name.to_owned(),
            step: HandshakeStep::Begin,
            // Connection ids are among the parameters, so no other session has the same.
            random: absorb(0, &params).to_be_bytes(),
            params,
            secret: None,
            generation: None,
            received: Vec::new(),
            peer_params: None,
            protocol: None,
            peer_heard: false,
        }
    }

    fn set_secret(&mut self, client: &[u8], server: &[u8]) {
        self.secret = Some(Tagger::new(&[client, server].concat()));
        self.step = HandshakeStep::HelloRead;
    }

    fn one_rtt_keys(&mut self) -> Option<Keys> {
        self.generation = self.secret.map(|secret| secret.derive(ONE_RTT));
        Some(keys::keys(self.generation?, self.side))
    }

    /// Whether `handshake_data` is known from here on.
    fn on_message(&mut self, (kind, fields): CryptoMessage<'_>) -> Result<bool, TransportError> {
        match (self.side, self.step, kind, &fields[..]) {
            (Side::Server, HandshakeStep::Begin, CLIENT_HELLO, [random, name, params, protocols @ ..]) => {
                let offer = &self.settings.offer;
                let chosen = offer.iter().find(|name| protocols.contains(&name.as_slice()));
                if chosen.is_none() && !offer.is_empty() && !protocols.is_empty() {
                    return Err(alert(NO_APPLICATION_PROTOCOL, "no application protocol in common"));
                }
                self.protocol = chosen.cloned();
                self.server_name = String::from_utf8_lossy(name).into_owned();
                self.peer_params = Some(read_params(self.side, params)?);
                let own = self.random;
                self.set_secret(random, &own);
                Ok(true)
            }
            (Side::Client, HandshakeStep::HelloSent, SERVER_HELLO, [random]) => {
                let own = self.random;
                self.set_secret(&own, random);
                Ok(false)
            }
            (Side::Client, HandshakeStep::HandshakeKeys, SERVER_FLIGHT, [params, chosen @ ..]) => {
                self.protocol = chosen.first().map(|name| name.to_vec());
                self.peer_params = Some(read_params(self.side, params)?);
                self.step = HandshakeStep::Flight;
                Ok(true)
            }
            (Side::Server, HandshakeStep::Flight, CLIENT_FINISHED, _) => {
                self.step = HandshakeStep::Tickets;
                Ok(false)
            }
            (Side::Client, HandshakeStep::Complete, SESSION_TICKETS, _) => Ok(false),
            _ => Err(alert(UNEXPECTED_MESSAGE, "an unexpected message")),
        }
    }
}

impl crypto::Session for CryptoSession {
    fn initial_keys(&self, dst_cid: &ConnectionId, side: Side) -> Keys {
        keys::initial(dst_cid, side)
    }

    fn handshake_data(&self) -> Option<Box<dyn Any>> {
        let is_server = self.side.is_server();
        self.peer_heard.then(|| -> Box<dyn Any> {
            Box::new(HandshakeData {
                protocol: self.protocol.clone(),
                server_name: is_server.then(|| self.server_name.clone()),
            })
        })
    }

    fn peer_identity(&self) -> Option<Box<dyn Any>> {
        None
    }

    fn early_crypto(&self) -> Option<(Box<dyn HeaderKey>, Box<dyn PacketKey>)> {
        None
    }

    fn early_data_accepted(&self) -> Option<bool> {
        self.side.is_client().then_some(false)
    }

    fn is_handshaking(&self) -> bool {
        match self.step {
            HandshakeStep::Begin
            | HandshakeStep::HelloSent
            | HandshakeStep::HelloRead
            | HandshakeStep::HandshakeKeys => true,
            HandshakeStep::Flight => self.side.is_server(),
            HandshakeStep::Tickets | HandshakeStep::Complete => false,
        }
    }

    fn read_handshake(&mut self, buf: &[u8]) -> Result<bool, TransportError> {
        if self.received.len() + buf.len() > RECEIVED_MAX {
            return Err(alert(DECODE_ERROR, "a message too long"));
        }
        let mut received = std::mem::take(&mut self.received);
        received.extend_from_slice(buf);
        let (mut learned, mut rest) = (false, &received[..]);
        while let Some((message, len)) = message::parse(rest) {
            learned |= self.on_message(message)?;
            rest = &rest[len..];
        }
        self.received = rest.to_vec();
        self.peer_heard |= learned;
        Ok(learned)
    }

    fn transport_parameters(&self) -> Result<Option<TransportParameters>, TransportError> {
        Ok(self.peer_params)
    }

    fn write_handshake(&mut self, buf: &mut Vec<u8>) -> Option<Keys> {
        match (self.side, self.step) {
            (Side::Client, HandshakeStep::Begin) => {
                let mut fields = vec![&self.random[..], self.server_name.as_bytes(), &self.params];
                fields.extend(self.settings.offer.iter().map(Vec::as_slice));
                message::emit(CLIENT_HELLO, &fields, buf);
                self.step = HandshakeStep::HelloSent;
                None
            }
            (_, HandshakeStep::HelloRead) => {
                if self.side.is_server() {
                    message::emit(SERVER_HELLO, &[&self.random], buf);
                }
                self.step = HandshakeStep::HandshakeKeys;
                Some(keys::keys(self.secret?.derive(HANDSHAKE), self.side))
            }
            (Side::Server, HandshakeStep::HandshakeKeys) => {
                let fields: Vec<&[u8]> =
                    [&self.params].into_iter().chain(&self.protocol).map(Vec::as_slice).collect();
                message::emit(SERVER_FLIGHT, &fields, buf);
                self.step = HandshakeStep::Flight;
                self.one_rtt_keys()
            }
            (Side::Client, HandshakeStep::Flight) => {
                message::emit(CLIENT_FINISHED, &[], buf);
                self.step = HandshakeStep::Complete;
                self.one_rtt_keys()
            }
            (Side::Server, HandshakeStep::Tickets) => {
                message::emit(SESSION_TICKETS, &[], buf);
                self.step = HandshakeStep::Complete;
                None
            }
            _ => None,
        }
    }

    fn next_1rtt_keys(&mut self) -> Option<KeyPair<Box<dyn PacketKey>>> {
        self.generation = self.generation.map(Tagger::following);
        Some(keys::packet_keys(self.generation?, self.side, false))
    }

    fn is_valid_retry(&self, orig_dst_cid: &ConnectionId, header: &[u8], payload: &[u8]) -> bool {
        let Some((token, tag)) = payload.split_last_chunk::<16>() else { return false };
        keys::retry_tag(orig_dst_cid, &[header, token].concat()) == *tag
    }

    fn export_keying_material(
        &self,
        output: &mut [u8],
        label: &[u8],
        context: &[u8],
    ) -> Result<(), ExportKeyingMaterialError> {
        let secret = self.secret.ok_or(ExportKeyingMaterialError)?.derive(EXPORTER);
        let mut state = absorb(absorb(secret.key(), label), context);
        for chunk in output.chunks_mut(size_of::<u64>()) {
            state = mix(state);
            chunk.copy_from_slice(&state.to_be_bytes()[..chunk.len()]);
        }
        Ok(())
    }
}

fn alert(code: u8, reason: &str) -> TransportError {
    let mut error = TransportError::from(TransportErrorCode::crypto(code));
    error.reason = reason.into();
    error
}

#[cfg(test)]
mod tests {
    use quinn_proto::crypto::Session as _;

    use super::*;

    fn sessions(client: &[&str], server: &[&str]) -> [CryptoSession; 2] {
        let settings = |names: &[&str]| {
            Arc::new(CryptoSettings::new(names.iter().map(|name| name.as_bytes().to_vec()).collect()))
        };
        let params = read_params(Side::Server, &[]).unwrap();
        [
            CryptoSession::new(Side::Client, settings(client), "rc3.test", &params),
            CryptoSession::new(Side::Server, settings(server), "", &params),
        ]
    }

    /// Passes handshake bytes back and forth in pieces of three.
    fn shake_hands([client, server]: &mut [CryptoSession; 2]) -> Result<(), TransportError> {
        for _ in 0..8 {
            let mut buf = Vec::new();
            client.write_handshake(&mut buf);
            buf.chunks(3).try_for_each(|piece| server.read_handshake(piece).map(drop))?;
            buf.clear();
            server.write_handshake(&mut buf);
            buf.chunks(3).try_for_each(|piece| client.read_handshake(piece).map(drop))?;
        }
        Ok(())
    }

    fn protocol(session: &CryptoSession) -> Option<Vec<u8>> {
        session.handshake_data()?.downcast::<HandshakeData>().ok()?.protocol
    }

    #[test]
    fn the_servers_preference_decides_on_the_protocol() {
        let mut sessions = sessions(&["b", "c"], &["d", "c", "b"]);
        assert!(sessions.iter().all(|session| session.is_handshaking() && protocol(session).is_none()));
        assert_eq!(shake_hands(&mut sessions), Ok(()));
        for session in &sessions {
            assert!(!session.is_handshaking());
            assert_eq!(protocol(session), Some(b"c".to_vec()));
            assert!(session.transport_parameters().unwrap().is_some());
        }
    }

    #[test]
    fn without_a_protocol_in_common_there_is_no_connection() {
        // RFC 9001 §8.1.
        let error = shake_hands(&mut sessions(&["b"], &["c"])).unwrap_err();
        assert_eq!(error.code, TransportErrorCode::crypto(NO_APPLICATION_PROTOCOL));
        assert_eq!(shake_hands(&mut sessions(&[], &["c"])), Ok(()));
    }

    #[test]
    fn messages_out_of_turn_and_endless_ones_are_refused() {
        let [_, mut server] = sessions(&[], &[]);
        let mut finished = Vec::new();
        message::emit(CLIENT_FINISHED, &[], &mut finished);
        assert!(server.read_handshake(&finished).is_err());
        let [mut client, _] = sessions(&[], &[]);
        let mut refused = (0..100).map(|_| client.read_handshake(&[0xff; 1000]));
        assert!(refused.any(|result| result.is_err()));
    }
}
