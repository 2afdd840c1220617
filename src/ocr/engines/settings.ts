/** What both engines tell Tesseract, besides the resolution: not to look for typewriter pitch, which its networks make no use of. */
export const settings = { textord_all_prop: '1' }
