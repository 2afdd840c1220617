/**
 * Errors of the ground truth of `ocr-french`, by the name of the page: what was transcribed, and what the page shows. They were found where OCR reads
 * another word, and each was looked up on the page. Words that are typed over or hard to read on the page stay as they were transcribed.
 */
const corrections: Readonly<Record<string, readonly (readonly [transcribed: string, printed: string])[]>> = {
  '20_21abf_default': [["t'ai gardé contre", "t'ai gardée contre"]],
  '22_c266f_default': [['Etendu', 'Étendu']],
  '24_3cb67_default': [['sont posés', 'sont posées']],
  '26_5b4af_default': [
    ['autours', 'autour'],
    ['réunis', 'réunies'],
    ['piefs', 'pieds'],
    ['Daoulag', 'Daoulah'],
    ["d'un rose", "d'une rose"],
  ],
  '30_0f1b2_default': [['passionée', 'passionnée']],
  '34_585a1_default': [['lequelle', 'laquelle']],
  '36_c6689_default': [
    ['et qe Balkis', 'et que Balkis'],
    ['daisent', 'daient'],
    ['caresé', 'caressé'],
  ],
  'FRAN_0011_11084_L-medium': [
    ['Cahmbray', 'Chambray'],
    ['commentaire sur', 'commentaires sur'],
  ],
  'FRAN_0011_11085_L-medium': [['commentaire sur', 'commentaires sur']],
  'FRAN_0011_11111_L-medium': [["uite de l'information", "suite de l'information"]],
  'FRAN_0011_11121_L-medium': [['Canda', 'Canada']],
}

/** Returns a ground truth without its known errors. `stem` is the name of the page without its extension. Throws for a correction that does not apply. */
export function correctTruth(stem: string, truth: string): string {
  return (corrections[stem] ?? []).reduce((text, [transcribed, printed]) => {
    if (!text.includes(transcribed)) throw new Error(`the ground truth of ${stem} has no ${transcribed}`)
    return text.replace(transcribed, printed)
  }, truth)
}
