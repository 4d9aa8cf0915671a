//! Events of the primary, and their consequences.

use super::Connection;
use crate::{
    event::Event,
    machines::{overlay::Overlay, rlp::Rlp, stream::send::SendStream},
    quic::{ConnectionError, Dir, PrimaryEvent, StreamEvent, StreamId, VarInt},
    seams::keys::RlpKeys,
    wire::alpn,
};

impl Connection {
    pub(super) fn on_primary_event(&mut self, event: PrimaryEvent) {
        match event {
            PrimaryEvent::HandshakeDataReady => self.on_negotiated(),
            PrimaryEvent::Connected => self.on_connected(),
            PrimaryEvent::ConnectionLost { reason } => self.on_lost(reason, true),
            PrimaryEvent::Stream(event) => self.on_stream_event(event),
            PrimaryEvent::DatagramReceived => self.events.push_back(Event::DatagramReceived),
            PrimaryEvent::DatagramsUnblocked => self.events.push_back(Event::DatagramsUnblocked),
        }
    }

    fn on_stream_event(&mut self, event: StreamEvent) {
        match event {
            StreamEvent::Opened { dir } => self.on_peer_opened(dir),
            StreamEvent::Available { dir } => {
                self.open_control();
                self.events.push_back(Event::Available(dir));
            }
            StreamEvent::Readable { id } => self.on_primary_readable(id),
            StreamEvent::Writable { id } => {
                self.streams.with_send(id, SendStream::on_primary_writable);
            }
            StreamEvent::Finished { id } => {
                let announced = self.remove_send(id).is_some_and(|stream| stream.is_announced());
                if !announced {
                    self.events.push_back(Event::Finished(id));
                }
            }
            StreamEvent::Stopped { id, error_code } => self.on_stopped(id, error_code),
        }
    }

    pub(super) fn on_negotiated(&mut self) {
        let rc3 = self.negotiated_rc3();
        self.primary.on_negotiated(rc3);
        if !self.life.early_offered {
            self.set_rc3(rc3);
        }
        self.events.push_back(Event::HandshakeDataReady);
    }

    pub(super) fn negotiated_rc3(&self) -> bool {
        let protocol = self.primary.handshake_data().and_then(|data| data.protocol);
        protocol.is_some_and(|name| alpn::parse(&name).0)
    }

    /// From here on streams are either rc3 or plain streams.
    pub(super) fn set_rc3(&mut self, rc3: bool) {
        // With late feeding, the seam decides what counts as application-limited.
        self.primary.set_fed_late(rc3);
        self.overlay = rc3.then(|| Overlay::new(&self.config, self.memory.rlp_room(&self.streams)));
        if !rc3 {
            self.memory.windows.leave_to_primary();
        }
        self.open_control();
    }

    pub(super) fn on_connected(&mut self) {
        self.end_early();
        self.addresses.on_handshake(&self.primary);
        if self.life.fault.is_some() {
            return;
        }
        if self.overlay.is_some() {
            self.open_control();
            match self.secrets.derive_keys(&self.primary) {
                Some(keys) => self.begin_rlp(keys),
                None => tracing::error!("the TLS exporter yields no keys: RLP stays off"),
            }
        }
        let (remote, side) = (self.remote_address(), self.side());
        tracing::debug!(%remote, ?side, rc3 = self.is_rc3(), rtt = ?self.rtt(), "connected");
        self.events.push_back(Event::Connected);
    }

    /// The handshake has yielded keys.
    fn begin_rlp(&mut self, RlpKeys { seal, open }: RlpKeys) {
        let Self { overlay: Some(overlay), config, secrets, primary, .. } = self else { return };
        overlay.openers.establish(open);
        // Early data has not been acknowledged yet, and may need more than one SACK.
        overlay.sacks.values_mut().for_each(|due| due.from = Some(0));
        match &mut overlay.rlp {
            Some(rlp) => rlp.on_established(seal),
            None => overlay.rlp = Some(Rlp::new(seal, secrets.receipt_key(), config, primary.rtt())),
        }
    }

    pub(super) fn on_lost(&mut self, reason: ConnectionError, tell: bool) {
        if self.life.lost.is_some() {
            return;
        }
        tracing::debug!(remote = %self.remote_address(), side = ?self.side(), %reason, "connection lost");
        self.streams.close();
        self.memory.ended = true;
        if let Some(overlay) = &mut self.overlay {
            overlay.stop();
        }
        self.life.lost = Some(reason.clone());
        if tell {
            self.events.push_back(Event::Lost(reason));
        }
    }

    /// Registers streams that the peer opened. As many as it may open at once wait for the application; the others stay
    /// with the primary, unread, so that its limit holds: it counts a stream until it has been read, and waiting
    /// streams are read here.
    pub(super) fn on_peer_opened(&mut self, dir: Dir) {
        let limit = self.primary.max_concurrent_streams(dir);
        let mut any = false;
        while self.streams.offered(dir) < limit.max(1) as usize
            && let Some(id) = self.primary.accept(dir)
        {
            self.streams.on_opened(id);
            if self.is_peer_control(id) {
                self.read_control(id);
                continue;
            }
            if dir == Dir::Bi {
                self.add_send(id);
            }
            self.add_recv(id);
            self.streams.offer(id);
            any = true;
            self.pull(id);
        }
        if any {
            self.events.push_back(Event::Opened(dir));
        }
    }

    pub(super) fn on_primary_readable(&mut self, id: StreamId) {
        if self.is_peer_control(id) {
            self.read_control(id);
            return;
        }
        self.pull(id);
        self.note_readable(id);
    }

    pub(super) fn note_readable(&mut self, id: StreamId) {
        let event = Event::Readable(id);
        if self.events.back() != Some(&event) && self.is_readable(id) {
            self.events.push_back(event);
        }
    }

    pub(super) fn on_stopped(&mut self, id: StreamId, code: VarInt) {
        let first = self.streams.with_send(id, |stream| {
            stream.stopped = Some(code);
            stream.reset()
        });
        if first == Some(true) {
            // RFC 9000 §3.5: answer STOP_SENDING with a reset.
            self.primary.reset(id, code);
            self.report_reset(id);
        }
        // The application is finished with streams that it knows to be delivered.
        let stream = self.streams.send(id);
        let (announced, released) =
            stream.map_or((false, false), |stream| (stream.is_announced(), stream.released));
        if announced || released {
            self.remove_send(id);
        }
        if !announced {
            self.events.push_back(Event::Stopped(id, code));
        }
        self.wake_writers();
    }

    /// The peer reports a stream as complete.
    pub(super) fn on_complete(&mut self, stream: u64) {
        let Ok(id) = VarInt::from_u64(stream).map(StreamId::from) else { return };
        if let Err(fault) = self.streams.on_complete(id) {
            self.life.fault = Some(fault);
        }
    }
}
