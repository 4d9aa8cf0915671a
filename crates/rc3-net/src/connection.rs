//! What an application does with a connection.

use std::{any::Any, net::IpAddr, time::Duration};

use bytes::Bytes;
use rc3_core::{self as core, ConnectionError, ConnectionStats, Dir, VarInt, congestion::Controller};

use crate::{
    connection_handle::Connection,
    datagram::{self, ReadDatagram, SendDatagram},
    error::{ExportKeyingMaterialError, SendDatagramError},
    open::{AcceptBi, AcceptUni, OpenBi, OpenUni},
    state::Access,
    wake::until,
};

impl Connection {
    /// Opens a stream for sending, as soon as the peer allows another one.
    ///
    /// The peer sees it with its first bytes (or its end).
    ///
    /// # Errors
    /// When the connection is lost.
    ///
    /// # Cancel safety
    /// Dropping the future opens nothing.
    pub fn open_uni(&self) -> OpenUni<'_> {
        OpenUni::new(self)
    }

    /// Opens a stream for both directions, as soon as the peer allows another one.
    ///
    /// The peer sees it with its first bytes (or its end): the opener must write first. [`crate::Stream`] does that by
    /// itself.
    ///
    /// # Errors
    /// When the connection is lost.
    ///
    /// # Cancel safety
    /// Dropping the future opens nothing.
    pub fn open_bi(&self) -> OpenBi<'_> {
        OpenBi::new(self)
    }

    /// The next stream the peer opened for sending to this side.
    ///
    /// # Errors
    /// When the connection is lost and no such stream is left.
    ///
    /// # Cancel safety
    /// Dropping the future loses no stream.
    pub fn accept_uni(&self) -> AcceptUni<'_> {
        AcceptUni::new(self)
    }

    /// The next stream the peer opened for both directions.
    ///
    /// # Errors
    /// When the connection is lost and no such stream is left.
    ///
    /// # Cancel safety
    /// Dropping the future loses no stream.
    pub fn accept_bi(&self) -> AcceptBi<'_> {
        AcceptBi::new(self)
    }

    /// Sends an application datagram: unreliable, unordered, by the primary and within its congestion window. If too
    /// many are waiting, the oldest are dropped to make room.
    ///
    /// ```
    /// use rc3_net::SendDatagramError;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let (client_config, server_config) = rc3_sim::identity::identity(&["example"]);
    /// # let server = rc3_net::Endpoint::server(server_config, "127.0.0.1:0".parse()?)?;
    /// # let client = rc3_net::Endpoint::client("127.0.0.1:0".parse()?)?;
    /// # let connecting = client.connect_with(client_config, server.local_addr()?, "rc3.test")?;
    /// # let accepting = async { server.accept().await.expect("the endpoint is open").await };
    /// # let (client, server) = tokio::try_join!(connecting, accepting)?;
    /// client.send_datagram("position 4, 2".into())?;
    /// assert_eq!(server.read_datagram().await?, "position 4, 2");
    ///
    /// let packet_max = client.max_datagram_size().expect("both sides have datagrams on");
    /// let longer = vec![0; packet_max + 1];
    /// assert_eq!(client.send_datagram(longer.into()), Err(SendDatagramError::TooLarge));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`SendDatagramError::UnsupportedByPeer`], [`SendDatagramError::Disabled`] if datagrams are off in the
    /// configuration, [`SendDatagramError::TooLarge`] above [`Self::max_datagram_size`],
    /// [`SendDatagramError::ConnectionLost`].
    pub fn send_datagram(&self, data: Bytes) -> Result<(), SendDatagramError> {
        datagram::send(self, data, true).map(|_| ())
    }

    /// As [`Self::send_datagram`], but waits for room and drops none.
    ///
    /// # Errors
    /// As [`Self::send_datagram`].
    ///
    /// # Cancel safety
    /// Dropping the future sends nothing.
    pub fn send_datagram_wait(&self, data: Bytes) -> SendDatagram<'_> {
        SendDatagram::new(self, data)
    }

    /// The next received application datagram.
    ///
    /// # Errors
    /// When the connection is lost and none is left.
    ///
    /// # Cancel safety
    /// Dropping the future loses none.
    pub fn read_datagram(&self) -> ReadDatagram<'_> {
        ReadDatagram::new(self)
    }

    /// Most bytes of an application datagram; `None` if either side has disabled datagrams. At least a little over 1
    /// KB, unless the peer accepts less; follows the path MTU.
    pub fn max_datagram_size(&self) -> Option<usize> {
        self.access(Access::Change, |core, _| core.max_datagram_size()).ok()?
    }

    /// Bytes of the largest application datagram that can be queued without dropping another.
    pub fn datagram_send_buffer_space(&self) -> usize {
        self.access(Access::Change, |core, _| core.datagram_send_buffer_space()).unwrap_or_default()
    }

    /// Waits until the connection is lost or closed by either side.
    pub async fn closed(&self) -> ConnectionError {
        until(&self.waiters().closed, || self.close_reason()).await
    }

    /// Why the connection is lost or closed, if it is.
    pub fn close_reason(&self) -> Option<ConnectionError> {
        match self.peek(|_, state| state.error.clone()) {
            Ok(error) => error,
            Err(error) => Some(error),
        }
    }

    /// Closes the connection at once. Bytes that are not delivered are lost; bytes that the peer has not read may be.
    /// The peer receives `code` and `reason` (below 1 KB, to fit into one packet).
    pub fn close(&self, code: VarInt, reason: &[u8]) {
        let reason = Bytes::copy_from_slice(reason);
        self.shared().with(|state| state.close(self.id(), code, reason));
    }

    /// Closes the connection once every byte that was accepted, on any stream, has been delivered to the peer's
    /// transport and acknowledged. A stream still open for writing is finished, as by
    /// [`SendStream::finish`](crate::SendStream::finish), after the bytes accepted so far. A stream that the peer stops
    /// no longer counts.
    ///
    /// The peer can still read all of it after the close. Bytes that the *peer* sends meanwhile can be read until
    /// the close.
    ///
    /// ```
    /// use rc3_net::{ConnectionError, VarInt};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let (client_config, server_config) = rc3_sim::identity::identity(&["example"]);
    /// # let server = rc3_net::Endpoint::server(server_config, "127.0.0.1:0".parse()?)?;
    /// # let client = rc3_net::Endpoint::client("127.0.0.1:0".parse()?)?;
    /// # let connecting = client.connect_with(client_config, server.local_addr()?, "rc3.test")?;
    /// # let accepting = async { server.accept().await.expect("the endpoint is open").await };
    /// # let (client, server) = tokio::try_join!(connecting, accepting)?;
    /// let mut send = client.open_uni().await?;
    /// send.write_all(&[7; 100_000]).await?;
    /// client.close_gracefully(VarInt::from_u32(0), b"done").await?;
    ///
    /// // The peer reads all of it after the close.
    /// assert!(matches!(server.closed().await, ConnectionError::ApplicationClosed(_)));
    /// let mut recv = server.accept_uni().await?;
    /// assert_eq!(recv.read_to_end(1 << 20).await?, [7; 100_000]);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// The [`ConnectionError`] with which the connection was lost, or closed by either side, before everything was
    /// delivered.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing: the connection continues to deliver and then closes, even without any
    /// handle to it.
    pub async fn close_gracefully(&self, code: VarInt, reason: &[u8]) -> Result<(), ConnectionError> {
        if let Some(error) = self.close_reason() {
            return Err(error);
        }
        let reason = Bytes::copy_from_slice(reason);
        let id = self.id();
        self.shared().with(|state| state.close_when_delivered(id, code, reason));
        match self.closed().await {
            ConnectionError::LocallyClosed if self.is_delivered() => Ok(()),
            error => Err(error),
        }
    }

    /// The local address of the connection, if known.
    pub fn local_ip(&self) -> Option<IpAddr> {
        self.peek(|core, _| core.local_ip()).ok().flatten()
    }

    /// The smoothed round-trip time.
    pub fn rtt(&self) -> Duration {
        self.peek(|core, _| core.rtt()).unwrap_or_default()
    }

    /// The smallest round-trip time seen on the path.
    pub fn min_rtt(&self) -> Duration {
        self.peek(|core, _| core.min_rtt()).unwrap_or_default()
    }

    /// The numbers of the primary's congestion controller now: window, slow start threshold, pacing rate. Later changes
    /// do not show in the result, and it cannot be downcast to the type of the controller.
    ///
    /// # Panics
    /// As [`Self::stats`].
    pub fn congestion_state(&self) -> Box<dyn Controller> {
        let state = self.peek(|core, _| core.congestion_state());
        state.expect("the runtime of the endpoint has not ended")
    }

    /// How many unidirectional streams the peer may have open at once from now on. A lower limit takes effect
    /// as streams end.
    pub fn set_max_concurrent_uni_streams(&self, count: VarInt) {
        self.set(|core| core.set_max_concurrent_streams(Dir::Uni, count));
    }

    /// The same for bidirectional streams.
    pub fn set_max_concurrent_bi_streams(&self, count: VarInt) {
        self.set(|core| core.set_max_concurrent_streams(Dir::Bi, count));
    }

    /// Bytes stored for sending before writes wait, see
    /// [`TransportConfig::send_window`](crate::TransportConfig::send_window).
    pub fn set_send_window(&self, bytes: u64) {
        self.set(|core| core.set_send_window(bytes));
    }

    /// Most received and unread bytes of both loops, see
    /// [`TransportConfig::receive_window`](crate::TransportConfig::receive_window). Earlier grants remain.
    pub fn set_receive_window(&self, bytes: VarInt) {
        self.set(|core| core.set_receive_window(bytes));
    }

    /// Updates the keys of the primary now (RFC 9001 §6). RLP updates its own.
    ///
    /// Call it only after the handshake is confirmed (RFC 9001 §6.1), or the peer closes the connection. quinn-proto
    /// does not report that: on clients, wait for the server's first answer.
    pub fn force_key_update(&self) {
        self.set(core::Connection::force_key_update);
    }

    /// Counters of both loops; `None` once the runtime of the endpoint has ended.
    pub fn try_stats(&self) -> Option<ConnectionStats> {
        self.peek(|core, _| core.stats()).ok()
    }

    /// Counters of both loops.
    ///
    /// # Panics
    /// When the runtime of the endpoint has ended; see [`Self::try_stats`].
    pub fn stats(&self) -> ConnectionStats {
        self.try_stats().expect("the runtime of the endpoint has ended")
    }

    /// Whether both sides use rc3. Otherwise this is a plain QUIC connection.
    pub fn is_rc3(&self) -> bool {
        self.peek(|core, _| core.is_rc3()).unwrap_or_default()
    }

    /// The result of the handshake: a [`HandshakeData`](crate::crypto::rustls::HandshakeData). Its protocol is the
    /// application's own name, with or without rc3.
    pub fn handshake_data(&self) -> Option<Box<dyn Any>> {
        let data = self.peek(|core, _| core.handshake_data()).ok()??;
        Some(Box::new(data))
    }

    /// The peer's certificates: a `Vec<rustls::pki_types::CertificateDer>`.
    pub fn peer_identity(&self) -> Option<Box<dyn Any>> {
        self.peek(|core, _| core.peer_identity()).ok()?
    }

    /// Fills `output` with keying material that only the two ends know (RFC 8446 §7.5).
    ///
    /// # Errors
    /// [`ExportKeyingMaterialError`] before the handshake allows it, for more than 255 hashes of `output`, or once the
    /// connection has ended.
    pub fn export_keying_material(
        &self,
        output: &mut [u8],
        label: &[u8],
        context: &[u8],
    ) -> Result<(), ExportKeyingMaterialError> {
        let exported = self.peek(|core, _| core.export_keying_material(output, label, context));
        exported.ok().flatten().ok_or(ExportKeyingMaterialError)
    }

    fn set(&self, change: impl FnOnce(&mut core::Connection)) {
        // Without a connection there is nothing to set.
        let _: Result<(), ConnectionError> = self.access(Access::Command, |core, _| change(core));
    }
}
