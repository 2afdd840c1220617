/** The picture of a file that has none: a sheet with its type on it. Letters are drawn from squares, since a server may have no fonts. */

/** Five by seven squares a letter, a row a digit pair of a base-32 number (16 = leftmost square). */
const letters: Readonly<Record<string, string>> = {
  A: 'ehhvhhh',
  B: 'uhhuhhu',
  C: 'ehggghe',
  D: 'uhhhhhu',
  E: 'vgguggv',
  F: 'vgguggg',
  G: 'ehgnhhe',
  H: 'hhhvhhh',
  I: 'e44444e',
  J: '72222ic',
  K: 'hikokih',
  L: 'ggggggv',
  M: 'hrllhhh',
  N: 'hhpljhh',
  O: 'ehhhhhe',
  P: 'uhhuggg',
  Q: 'ehhhlid',
  R: 'uhhukih',
  S: 'fgge11u',
  T: 'v444444',
  U: 'hhhhhhe',
  V: 'hhhhha4',
  W: 'hhhllla',
  X: 'hha4ahh',
  Y: 'hhha444',
  Z: 'v1248gv',
  0: 'ehjlphe',
  1: '4c4444e',
  2: 'eh1248v',
  3: 'v2421he',
  4: '26aiv22',
  5: 'vgu11he',
  6: '68guhhe',
  7: 'v124888',
  8: 'ehhehhe',
  9: 'ehhf12c',
}

/** Draws the card inside width × height pixels. */
export async function card(
  filename: string,
  mimeType: string,
  { width, height }: { width: number; height: number },
  type: 'image/webp' | 'image/jpeg',
): Promise<Uint8Array> {
  const word = wordFor(filename, mimeType)
  const unit = Math.min(7, 70 / (word.length * 6))
  const squares = [...word]
    .flatMap((letter, index) => squaresOf(letter, 50 - (word.length * 6 - 1) * unit * 0.5 + index * 6 * unit, 78, unit))
    .join('')
  const svg = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 100 130">
    <path d="M6 4h62l26 26v96H6z" fill="#f6f7f9" stroke="#c3c9d4" stroke-width="2"/><path d="M68 4v26h26z" fill="#dfe3ea" stroke="#c3c9d4" stroke-width="2"/>
    <g fill="#55607a">${squares}</g></svg>`
  // Who only lists documents does not wait for it.
  const { default: sharp } = await import('sharp')
  const picture = sharp(Buffer.from(svg)).resize(width, height, { fit: 'inside' }).flatten({ background: '#ffffff' })
  return type === 'image/webp' ? picture.webp().toBuffer() : picture.jpeg().toBuffer()
}

function wordFor(filename: string, mimeType: string): string {
  const extension =
    /\.([A-Za-z0-9]{1,5})$/.exec(filename)?.[1] ??
    mimeType
      .split('/')[1]
      ?.replace(/[^A-Za-z0-9]/g, '')
      .slice(0, 5) ??
    ''
  return extension.toUpperCase() || 'FILE'
}

const squaresOf = (letter: string, x: number, y: number, unit: number): string[] =>
  [...(letters[letter] ?? '')].flatMap((row, line) =>
    [16, 8, 4, 2, 1].flatMap((bit, column) =>
      Number.parseInt(row, 32) & bit
        ? [`<path d="M${(x + column * unit).toFixed(2)} ${(y + line * unit).toFixed(2)}h${unit}v${unit}h-${unit}z"/>`]
        : [],
    ),
  )
