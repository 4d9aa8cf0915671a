//! Sessions whose keys pass the plaintext of packets to the qlog.

use std::{any::Any, sync::Arc};

use bytes::BytesMut;
use quinn_proto::{
    ConnectError, ConnectionId, Side, TransportError,
    crypto::{
        ClientConfig, CryptoError, ExportKeyingMaterialError, HeaderKey, KeyPair, Keys, PacketKey,
        ServerConfig, Session, UnsupportedVersion,
    },
    transport_parameters::TransportParameters,
};

use crate::seams::qlog::{LastPackets, PacketDirection};

/// Something whose keys are observed.
pub(super) struct Observed<T> {
    inner: T,
    packets: LastPackets,
}

impl<T> Observed<T> {
    pub(super) fn new(inner: T, packets: LastPackets) -> Self {
        Self { inner, packets }
    }

    fn with<U>(&self, inner: U) -> Observed<U> {
        Observed { inner, packets: self.packets.clone() }
    }

    fn packet_key(&self, key: Box<dyn PacketKey>) -> Box<dyn PacketKey> {
        Box::new(self.with(key))
    }

    fn packet_keys(&self, keys: KeyPair<Box<dyn PacketKey>>) -> KeyPair<Box<dyn PacketKey>> {
        KeyPair { local: self.packet_key(keys.local), remote: self.packet_key(keys.remote) }
    }

    fn keys(&self, keys: Keys) -> Keys {
        Keys { header: keys.header, packet: self.packet_keys(keys.packet) }
    }
}

impl ClientConfig for Observed<Arc<dyn ClientConfig>> {
    fn start_session(
        self: Arc<Self>,
        version: u32,
        server_name: &str,
        params: &TransportParameters,
    ) -> Result<Box<dyn Session>, ConnectError> {
        let session = self.inner.clone().start_session(version, server_name, params)?;
        Ok(Box::new(self.with(session)))
    }
}

impl ServerConfig for Observed<Arc<dyn ServerConfig>> {
    fn initial_keys(&self, version: u32, dst_cid: &ConnectionId) -> Result<Keys, UnsupportedVersion> {
        Ok(self.keys(self.inner.initial_keys(version, dst_cid)?))
    }

    fn retry_tag(&self, version: u32, orig_dst_cid: &ConnectionId, packet: &[u8]) -> [u8; 16] {
        self.inner.retry_tag(version, orig_dst_cid, packet)
    }

    fn start_session(self: Arc<Self>, version: u32, params: &TransportParameters) -> Box<dyn Session> {
        Box::new(self.with(self.inner.clone().start_session(version, params)))
    }
}

impl Session for Observed<Box<dyn Session>> {
    fn initial_keys(&self, dst_cid: &ConnectionId, side: Side) -> Keys {
        self.keys(self.inner.initial_keys(dst_cid, side))
    }

    fn handshake_data(&self) -> Option<Box<dyn Any>> {
        self.inner.handshake_data()
    }

    fn peer_identity(&self) -> Option<Box<dyn Any>> {
        self.inner.peer_identity()
    }

    fn early_crypto(&self) -> Option<(Box<dyn HeaderKey>, Box<dyn PacketKey>)> {
        self.inner.early_crypto().map(|(header, packet)| (header, self.packet_key(packet)))
    }

    fn early_data_accepted(&self) -> Option<bool> {
        self.inner.early_data_accepted()
    }

    fn is_handshaking(&self) -> bool {
        self.inner.is_handshaking()
    }

    fn read_handshake(&mut self, buf: &[u8]) -> Result<bool, TransportError> {
        self.inner.read_handshake(buf)
    }

    fn transport_parameters(&self) -> Result<Option<TransportParameters>, TransportError> {
        self.inner.transport_parameters()
    }

    fn write_handshake(&mut self, buf: &mut Vec<u8>) -> Option<Keys> {
        let keys = self.inner.write_handshake(buf)?;
        Some(self.keys(keys))
    }

    fn next_1rtt_keys(&mut self) -> Option<KeyPair<Box<dyn PacketKey>>> {
        let keys = self.inner.next_1rtt_keys()?;
        Some(self.packet_keys(keys))
    }

    fn is_valid_retry(&self, orig_dst_cid: &ConnectionId, header: &[u8], payload: &[u8]) -> bool {
        self.inner.is_valid_retry(orig_dst_cid, header, payload)
    }

    fn export_keying_material(
        &self,
        output: &mut [u8],
        label: &[u8],
        context: &[u8],
    ) -> Result<(), ExportKeyingMaterialError> {
        self.inner.export_keying_material(output, label, context)
    }
}

impl PacketKey for Observed<Box<dyn PacketKey>> {
    fn encrypt(&self, packet: u64, buf: &mut [u8], header_len: usize) {
        let end = buf.len().saturating_sub(self.tag_len()).max(header_len);
        self.packets.put(PacketDirection::Sent, packet, &buf[header_len..end], buf.len());
        self.inner.encrypt(packet, buf, header_len);
    }

    fn decrypt(&self, packet: u64, header: &[u8], payload: &mut BytesMut) -> Result<(), CryptoError> {
        let length = header.len() + payload.len();
        self.inner.decrypt(packet, header, payload)?;
        self.packets.put(PacketDirection::Received, packet, payload, length);
        Ok(())
    }

    fn tag_len(&self) -> usize {
        self.inner.tag_len()
    }

    fn confidentiality_limit(&self) -> u64 {
        self.inner.confidentiality_limit()
    }

    fn integrity_limit(&self) -> u64 {
        self.inner.integrity_limit()
    }
}
