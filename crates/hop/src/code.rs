//! An erasure code: of `n` packets any `k` give the `k` that matter.
//!
//! A systematic Reed-Solomon code over the field of 256 elements with a Cauchy matrix: the first `k` packets of a block are as they
//! were, each of the others is a sum of them with coefficients `1 / (x + y)`, `x` its own number and `y` the other's. Every
//! square part of such a matrix can be inverted, which is why any `k` are enough.

/// Why a code or a block is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CodeError {
    /// `k` must be at least 1, and less than `n`.
    #[error("a code of {n} packets with {k} that matter is none")]
    Shape {
        /// Packets of a block.
        n: u8,
        /// Of them that matter.
        k: u8,
    },
    /// Fewer than `k` packets arrived.
    #[error("too few packets of the block arrived")]
    TooFew,
    /// Packets of a block have one length; this one has another, or a number twice.
    #[error("the packets do not belong to one block")]
    Mixed,
}

/// A code.
#[derive(Debug, Clone)]
pub struct Code {
    n: u8,
    k: u8,
    field: Field,
}

/// Logarithms and powers of the field with the polynomial x^8 + x^4 + x^3 + x^2 + 1.
#[derive(Debug, Clone)]
struct Field {
    powers: [u8; 512],
    logarithms: [u8; 256],
}

impl Field {
    fn new() -> Self {
        let (mut powers, mut logarithms) = ([0; 512], [0; 256]);
        let mut value: u16 = 1;
        for power in 0..255_u16 {
            powers[usize::from(power)] = value as u8;
            powers[usize::from(power) + 255] = value as u8;
            logarithms[usize::from(value)] = power as u8;
            value <<= 1;
            if value & 0x100 != 0 {
                value ^= 0x11d;
            }
        }
        Self { powers, logarithms }
    }

    fn multiply(&self, a: u8, b: u8) -> u8 {
        if a == 0 || b == 0 {
            return 0;
        }
        self.powers[usize::from(self.logarithms[usize::from(a)]) + usize::from(self.logarithms[usize::from(b)])]
    }

    fn invert(&self, a: u8) -> u8 {
        self.powers[255 - usize::from(self.logarithms[usize::from(a)])]
    }

    /// Adds `factor` times one packet to another.
    fn add(&self, to: &mut [u8], factor: u8, from: &[u8]) {
        for (to, from) in to.iter_mut().zip(from) {
            *to ^= self.multiply(factor, *from);
        }
    }
}

/// Of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Packets that are sent.
    pub n: u8,
    /// How many of them give the block.
    pub k: u8,
}

impl Code {
    /// For blocks of one shape.
    ///
    /// # Errors
    /// [`CodeError::Shape`] unless 0 < k < n.
    pub fn new(Shape { n, k }: Shape) -> Result<Self, CodeError> {
        if k == 0 || k >= n {
            return Err(CodeError::Shape { n, k });
        }
        Ok(Self { n, k, field: Field::new() })
    }

    /// Coefficient of packet `column` in packet `row` of a block.
    fn coefficient(&self, row: u8, column: u8) -> u8 {
        if row < self.k { u8::from(row == column) } else { self.field.invert(row ^ column) }
    }

    /// The `n - k` further packets of a block of `k` packets of one length.
    ///
    /// # Errors
    /// [`CodeError::TooFew`] or [`CodeError::Mixed`] if the block is none.
    pub fn encode(&self, block: &[Vec<u8>]) -> Result<Vec<Vec<u8>>, CodeError> {
        if block.len() != usize::from(self.k) {
            return Err(CodeError::TooFew);
        }
        let len = block[0].len();
        if block.iter().any(|packet| packet.len() != len) {
            return Err(CodeError::Mixed);
        }
        let sum = |row: u8| {
            let mut packet = vec![0; len];
            for (column, from) in (0..self.k).zip(block) {
                self.field.add(&mut packet, self.coefficient(row, column), from);
            }
            packet
        };
        Ok((self.k..self.n).map(sum).collect())
    }

    /// The `k` packets that matter, from any `k` of a block with their numbers.
    ///
    /// # Errors
    /// [`CodeError`] if they are too few or do not belong together.
    pub fn decode(&self, arrived: &[(u8, Vec<u8>)]) -> Result<Vec<Vec<u8>>, CodeError> {
        let k = usize::from(self.k);
        let used = arrived.get(..k).ok_or(CodeError::TooFew)?;
        let len = used[0].1.len();
        let mut seen = [false; 256];
        let fresh = used.iter().all(|(row, packet)| {
            *row < self.n && packet.len() == len && !std::mem::replace(&mut seen[usize::from(*row)], true)
        });
        if !fresh {
            return Err(CodeError::Mixed);
        }
        let mut rows: Vec<(Vec<u8>, Vec<u8>)> = used
            .iter()
            .map(|(row, packet)| ((0..self.k).map(|column| self.coefficient(*row, column)).collect(), packet.clone()))
            .collect();
        self.eliminate(&mut rows)?;
        Ok(rows.into_iter().map(|(_, packet)| packet).collect())
    }

    /// Gauss and Jordan: turns the coefficients into the unit matrix.
    fn eliminate(&self, rows: &mut [(Vec<u8>, Vec<u8>)]) -> Result<(), CodeError> {
        for column in 0..rows.len() {
            let pivot = (column..rows.len()).find(|row| rows[*row].0[column] != 0).ok_or(CodeError::TooFew)?;
            rows.swap(column, pivot);
            let factor = self.field.invert(rows[column].0[column]);
            let (coefficients, packet) = &mut rows[column];
            for value in coefficients.iter_mut().chain(packet.iter_mut()) {
                *value = self.field.multiply(factor, *value);
            }
            let (coefficients, packet) = rows[column].clone();
            for (row, (others, other)) in rows.iter_mut().enumerate() {
                let factor = others[column];
                if row != column && factor != 0 {
                    self.field.add(others, factor, &coefficients);
                    self.field.add(other, factor, &packet);
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(k: u8, len: usize) -> Vec<Vec<u8>> {
        (0..k).map(|n| (0..len).map(|i| (i as u8).wrapping_mul(37) ^ n.wrapping_mul(91) ^ 5).collect()).collect()
    }

    #[test]
    fn any_k_of_n_give_the_block() {
        let (n, k) = (7, 4);
        let code = Code::new(Shape { n, k }).unwrap();
        let data = block(k, 33);
        let all: Vec<Vec<u8>> = data.iter().cloned().chain(code.encode(&data).unwrap()).collect();
        let mut tried = 0;
        for subset in 0..1_u32 << n {
            if subset.count_ones() == u32::from(k) {
                let arrived: Vec<(u8, Vec<u8>)> = (0..n)
                    .filter(|row| subset >> row & 1 == 1)
                    .map(|row| (row, all[usize::from(row)].clone()))
                    .collect();
                assert_eq!(code.decode(&arrived).unwrap(), data, "{subset:b}");
                tried += 1;
            }
        }
        assert_eq!(tried, 35);
    }

    #[test]
    fn blocks_that_are_none_are_refused() {
        assert!(matches!(Code::new(Shape { n: 3, k: 3 }), Err(CodeError::Shape { .. })));
        let code = Code::new(Shape { n: 5, k: 3 }).unwrap();
        assert_eq!(code.decode(&[(0, vec![1])]), Err(CodeError::TooFew));
        assert_eq!(code.decode(&[(0, vec![1]), (0, vec![1]), (1, vec![1])]), Err(CodeError::Mixed));
        assert_eq!(code.decode(&[(0, vec![1]), (9, vec![1]), (1, vec![1])]), Err(CodeError::Mixed));
        assert_eq!(code.decode(&[(0, vec![1]), (2, vec![1, 2]), (1, vec![1])]), Err(CodeError::Mixed));
        assert_eq!(code.encode(&block(2, 4)), Err(CodeError::TooFew));
    }
}
