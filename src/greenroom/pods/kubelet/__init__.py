"""What looks after pods: the kubelet decides, and a pod's own supervisor carries out what concerns its actors."""
