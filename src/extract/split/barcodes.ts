/** Barcodes of separator sheets and archive serial numbers, read by ZXing. */
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { prepareZXingModule, type ReaderOptions, readBarcodes } from 'zxing-wasm/reader'
import type { GrayImage } from '../../ocr/image/illumination.ts'

const options: ReaderOptions = { formats: ['Code128', 'Code39', 'QRCode', 'DataMatrix'], tryHarder: true, maxNumberOfSymbols: 16 }

/** Loads the WebAssembly module from its package; the default would fetch it. */
function prepare(): void {
  const wasmBinary = readFileSync(createRequire(import.meta.url).resolve('zxing-wasm/reader/zxing_reader.wasm'))
  prepareZXingModule({ overrides: { wasmBinary: wasmBinary.buffer as ArrayBuffer } })
}
let isPrepared = false

/** Returns the texts of the barcodes in a picture, at most 16. */
export async function readBarcodeTexts({ gray, width, height }: GrayImage): Promise<string[]> {
  if (!isPrepared) prepare()
  isPrepared = true
  const pixels = new Uint32Array(gray.length)
  for (let at = 0; at < gray.length; at++) pixels[at] = 0xff000000 + gray[at]! * 0x010101
  const image = { data: new Uint8ClampedArray(pixels.buffer), width, height, colorSpace: 'srgb' } as ImageData
  return (await readBarcodes(image, options)).map(({ text }) => text.trim())
}
