/** Operations of sharp on gray pixels. */
import sharp, { type Sharp } from 'sharp'
import type { GrayImage } from './illumination.ts'

/** Applies operations of sharp, such as a blur or another size. */
export async function transformGray({ gray, width, height }: GrayImage, transform: (image: Sharp) => Sharp): Promise<GrayImage> {
  const image = sharp(gray, { raw: { width, height, channels: 1 }, limitInputPixels: false })
  const { data, info } = await transform(image).toColourspace('b-w').raw().toBuffer({ resolveWithObject: true })
  return { gray: data, width: info.width, height: info.height }
}
