//! The programs by which the kernel chooses a socket of a group: classic BPF, which needs no privilege.
//!
//! A program sees the payload of a UDP datagram and returns the number of a socket, in order of binding. A load beyond
//! the end makes it return 0, so lengths are checked before. It has an accumulator, an index register and 16 words of memory; all arithmetic has 32
//! bits, and loads are big endian.

use libc::{
    BPF_A, BPF_ABS, BPF_ADD, BPF_ALU, BPF_B, BPF_IMM, BPF_IND, BPF_JA, BPF_JGE, BPF_JMP, BPF_JSET, BPF_K,
    BPF_LD, BPF_LDX, BPF_LEN, BPF_LSH, BPF_MEM, BPF_MISC, BPF_MUL, BPF_OR, BPF_RET, BPF_RSH, BPF_ST, BPF_SUB,
    BPF_TAX, BPF_TXA, BPF_W, BPF_X, BPF_XOR, sock_filter,
};
use rc3_core::WorkerHash;

/// The bit that QUIC sets and RLP does not (RFC 9000 §17.2).
const FIXED_BIT: u32 = 0x40;

/// The bit of long headers (RFC 8999 §5.1).
const LONG: u32 = 0x80;

/// The bytes of an id that are hashed.
const HASHED_BYTES: u32 = 8;

/// Where a long header has the length of its id, which follows (RFC 8999 §5.1).
const LONG_ID_LEN_AT: u32 = 5;

/// A load from here yields a random number (`SKF_AD_RANDOM` of the kernel's `linux/filter.h`).
const RANDOM: u32 = (libc::SKF_AD_OFF + libc::SKF_AD_RANDOM) as u32;

/// A group of two: the fixed bit set, or no payload at all, goes to member 0, else to member 1.
pub(super) fn by_first_byte() -> Vec<sock_filter> {
    let mut program = Program::default();
    program.push(BPF_LD | BPF_B | BPF_ABS, 0);
    program.jump(BPF_JSET, FIXED_BIT, 0, 1);
    program.push(BPF_RET | BPF_K, 0);
    program.push(BPF_RET | BPF_K, 1);
    program.0
}

/// [`WorkerHash::worker_of`] in the kernel: worker w has members 2 w and 2 w + 1, which the fixed bit distinguishes as
/// above. A datagram without a whole id belongs to no connection and goes to any worker, so that a flood of them burdens
/// no worker more than the others.
pub(super) fn by_worker(hash: &WorkerHash) -> Vec<sock_filter> {
    let (mut hashing, mut program) = (Program::default(), Program::default());
    hashing.hash(hash.key());
    program.load_id(hash, hashing.0.len() as u32);
    program.0.extend(hashing.0);
    program.choose(hash.workers() as u32);
    program.0
}

/// A word of memory.
type MachineWord = u32;

/// The state of the hash.
const STATE: [MachineWord; 4] = [0, 1, 2, 3];
/// The hashed words.
const HASHED: [MachineWord; 2] = [4, 5];
/// The first byte of the datagram; of one without payload, as of QUIC.
const FIRST: MachineWord = 6;
/// Where the hashed bytes begin.
const OFFSET: MachineWord = 7;

#[derive(Default)]
struct Program(Vec<sock_filter>);

impl Program {
    fn push(&mut self, code: u32, k: u32) {
        self.0.push(sock_filter { code: code as u16, jt: 0, jf: 0, k });
    }

    /// Skips `yes` instructions if the condition holds, otherwise `no`.
    fn jump(&mut self, condition: u32, k: u32, yes: u8, no: u8) {
        self.0.push(sock_filter { code: (BPF_JMP | condition | BPF_K) as u16, jt: yes, jf: no, k });
    }

    /// Loads the first byte, and the eight bytes of the id that are hashed. Without them, leaves a random number in the
    /// accumulator and skips the next `hashing` instructions. Loads beyond the end would end the program.
    fn load_id(&mut self, hash: &WorkerHash, hashing: u32) {
        let mut without_id = Vec::new();
        self.push(BPF_LD | BPF_IMM, FIXED_BIT);
        self.push(BPF_ST, FIRST);
        self.push(BPF_LD | BPF_W | BPF_LEN, 0);
        without_id.push(self.unless_at_least(BPF_K, 1));
        self.push(BPF_LD | BPF_B | BPF_ABS, 0);
        self.push(BPF_ST, FIRST);
        self.jump(BPF_JSET, LONG, 5, 0);
        self.jump(BPF_JSET, FIXED_BIT, 2, 0);
        // RLP: the id follows the first byte.
        self.push(BPF_LD | BPF_IMM, 1);
        self.push(BPF_JMP | BPF_JA, 9);
        self.push(BPF_LD | BPF_IMM, hash.short_header_offset() as u32);
        self.push(BPF_JMP | BPF_JA, 7);
        self.push(BPF_LD | BPF_W | BPF_LEN, 0);
        without_id.push(self.unless_at_least(BPF_K, LONG_ID_LEN_AT + 1));
        self.push(BPF_LD | BPF_B | BPF_ABS, LONG_ID_LEN_AT);
        without_id.push(self.unless_at_least(BPF_K, HASHED_BYTES));
        self.push(BPF_ALU | BPF_SUB | BPF_K, HASHED_BYTES - LONG_ID_LEN_AT - 1);
        // In the accumulator: where the hashed bytes begin.
        self.push(BPF_ST, OFFSET);
        self.push(BPF_ALU | BPF_ADD | BPF_K, HASHED_BYTES);
        self.push(BPF_MISC | BPF_TAX, 0);
        self.push(BPF_LD | BPF_W | BPF_LEN, 0);
        without_id.push(self.unless_at_least(BPF_X, 0));
        self.push(BPF_LDX | BPF_MEM, OFFSET);
        for (word, offset) in HASHED.into_iter().zip([0, 4]) {
            self.push(BPF_LD | BPF_W | BPF_IND, offset);
            self.push(BPF_ST, word);
        }
        self.push(BPF_JMP | BPF_JA, 2);
        let here = self.0.len();
        for jump in without_id {
            self.0[jump].k = (here - jump - 1) as u32;
        }
        self.push(BPF_LD | BPF_W | BPF_ABS, RANDOM);
        self.push(BPF_JMP | BPF_JA, hashing);
    }

    /// Goes on if the accumulator is at least `k`, or the index register; returns the place of a jump for the other case.
    fn unless_at_least(&mut self, with: u32, k: u32) -> usize {
        self.0.push(sock_filter { code: (BPF_JMP | BPF_JGE | with) as u16, jt: 1, jf: 0, k });
        self.push(BPF_JMP | BPF_JA, 0);
        self.0.len() - 1
    }

    /// HalfSipHash-1-3 of the two words, into the accumulator.
    fn hash(&mut self, key: [u32; 2]) {
        let [v0, v1, v2, v3] = STATE;
        for (word, value) in
            STATE.into_iter().zip([key[0], key[1], 0x6c79_6765 ^ key[0], 0x7465_6462 ^ key[1]])
        {
            self.push(BPF_LD | BPF_IMM, value);
            self.push(BPF_ST, word);
        }
        for word in HASHED {
            self.combine(BPF_XOR, v3, word);
            self.round();
            self.combine(BPF_XOR, v0, word);
        }
        self.push(BPF_LD | BPF_MEM, v2);
        self.push(BPF_ALU | BPF_XOR | BPF_K, 0xff);
        self.push(BPF_ST, v2);
        (0..3).for_each(|_| self.round());
        self.push(BPF_LD | BPF_MEM, v1);
        self.push(BPF_LDX | BPF_MEM, v3);
        self.push(BPF_ALU | BPF_XOR | BPF_X, 0);
    }

    fn round(&mut self) {
        let [v0, v1, v2, v3] = STATE;
        self.combine(BPF_ADD, v0, v1);
        self.rotate(v1, 5);
        self.combine(BPF_XOR, v1, v0);
        self.rotate(v0, 16);
        self.combine(BPF_ADD, v2, v3);
        self.rotate(v3, 8);
        self.combine(BPF_XOR, v3, v2);
        self.combine(BPF_ADD, v0, v3);
        self.rotate(v3, 7);
        self.combine(BPF_XOR, v3, v0);
        self.combine(BPF_ADD, v2, v1);
        self.rotate(v1, 13);
        self.combine(BPF_XOR, v1, v2);
        self.rotate(v2, 16);
    }

    /// `to = to operation with`.
    fn combine(&mut self, operation: u32, to: MachineWord, with: MachineWord) {
        self.push(BPF_LD | BPF_MEM, to);
        self.push(BPF_LDX | BPF_MEM, with);
        self.push(BPF_ALU | operation | BPF_X, 0);
        self.push(BPF_ST, to);
    }

    /// Rotates a word to the left.
    fn rotate(&mut self, word: MachineWord, bits: u32) {
        self.push(BPF_LD | BPF_MEM, word);
        self.push(BPF_ALU | BPF_RSH | BPF_K, 32 - bits);
        self.push(BPF_MISC | BPF_TAX, 0);
        self.push(BPF_LD | BPF_MEM, word);
        self.push(BPF_ALU | BPF_LSH | BPF_K, bits);
        self.push(BPF_ALU | BPF_OR | BPF_X, 0);
        self.push(BPF_ST, word);
    }

    /// Returns a socket of the worker that the hash in the accumulator chooses.
    fn choose(&mut self, workers: u32) {
        self.push(BPF_ALU | BPF_RSH | BPF_K, 16);
        self.push(BPF_ALU | BPF_MUL | BPF_K, workers);
        self.push(BPF_ALU | BPF_RSH | BPF_K, 16);
        self.push(BPF_ALU | BPF_LSH | BPF_K, 1);
        self.push(BPF_MISC | BPF_TAX, 0);
        self.push(BPF_LD | BPF_MEM, FIRST);
        self.jump(BPF_JSET, FIXED_BIT, 3, 0);
        self.push(BPF_MISC | BPF_TXA, 0);
        self.push(BPF_ALU | BPF_ADD | BPF_K, 1);
        self.push(BPF_RET | BPF_A, 0);
        self.push(BPF_MISC | BPF_TXA, 0);
        self.push(BPF_RET | BPF_A, 0);
    }
}
